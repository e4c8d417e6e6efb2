"""Write a source archive again without what differs from one build to the next: times, owners, order, umask."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
from pathlib import Path

path, time = Path(sys.argv[1]), int(os.environ["SOURCE_DATE_EPOCH"])
content = io.BytesIO()
with tarfile.open(path) as before, tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as after:
    for member in sorted(before.getmembers(), key=lambda one: one.name):
        member.mtime, member.uid, member.gid, member.uname, member.gname = time, 0, 0, "", ""
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        member.pax_headers = {}
        after.addfile(member, before.extractfile(member) if member.isfile() else None)
path.write_bytes(gzip.compress(content.getvalue(), mtime=time))
