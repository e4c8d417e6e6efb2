"""The audit's numbers.

What is read: ``losses``, ``labels``, ``people``, ``audited_model``, ``training_data`` → models: ``learners``,
``cross_fitting`` → what decides: ``scores``, ``intervals``, ``verdict``, ``penalty``, ``tested_sets`` → what is shown
beside it: ``recognition``, ``reference_models``, ``loss_comparison``, ``informativeness``, ``sharing``, ``balance``,
``calibration``, ``support``, ``truth``, ``provenance``.
"""
