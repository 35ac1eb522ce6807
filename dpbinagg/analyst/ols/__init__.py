"""The estimator: least squares by private rounds.

Margins of the raw variables give coordinates (`coordinates`), structured second moments a start
(`start`), rounds of clipped scores approach the estimate (`rounds`), and a last one decides it, and
how far those before it are believed (`finish`). Its covariance is read off an ensemble of
hypothetical truths that take the very same steps (`start.State`).
"""
