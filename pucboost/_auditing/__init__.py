"""The consent audit: whether people who withhold data are treated as their remaining data justify.

In the order of one call of ``puc.audit`` (which is in ``run``; a module called ``audit`` would replace the function):

- ``settings``: the options, checked, in three groups (people, judgement, fitting)
- ``people``: the people audited, their outcomes, the loss, and the model behind one interface
- ``training_data``: whether the model was trained on these people
- ``nuisance``: cross-fitted models of outcome and availability
- ``scores``: the doubly robust score of each person; standard errors and intervals
- ``penalty``: which sets are tested alone and which together; from scores to penalties, joint intervals, the verdict
  and whom it covers
- ``within``: whether averages hide opposite penalties; then the model is violated for some
- ``recognition``: whether base features give away who withholds; then nothing is certified
- ``context``: numbers shown beside the verdict; of these only who is compared with themselves counts, for coverage
- ``findings``: frozen results, and ``AuditReport``, which holds and shows them
- ``blocks``, ``plots``, ``report``: numbers, figures and words on a page (``templates``), Markdown, a terminal
- ``card``: one page about a model, with its audit
- ``drift``, ``sequence``, ``monitor``: who shares what before and now; penalties batch after batch; both as one report
"""
