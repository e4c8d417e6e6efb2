// Browsers start no worker for a page opened from a file, and the search of this site runs in one. Where the page comes from a
// file, a hidden frame takes the worker's place: the same messages, in the same order, on the page's own thread.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.append(frame)
      const scope = frame.contentWindow
      const waiting = []
      const answer = data => {
        const event = new MessageEvent("message", { data })
        if (this.onmessage) this.onmessage(event)
        this.dispatchEvent(event)
      }
      this.postMessage = data => waiting.push(data)
      this.terminate = () => frame.remove()
      scope.postMessage = data => setTimeout(answer, 0, data)
      scope.importScripts = (...urls) => Promise.all(urls.map(load))
      function load(source) {
        return new Promise((resolve, reject) => {
          const script = scope.document.createElement("script")
          script.src = source
          script.onload = resolve
          script.onerror = reject
          scope.document.head.append(script)
        })
      }
      load(new URL(url, location.href).href).then(() => {
        this.postMessage = data => scope.dispatchEvent(new MessageEvent("message", { data }))
        waiting.forEach(data => this.postMessage(data))
      })
    }
  }
}
