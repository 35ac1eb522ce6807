"""The estimator: least squares by private rounds.

Margins of the raw variables give coordinates (`coordinates`), structured second moments a start
(`start`), rounds of clipped scores approach the estimate (`rounds`), and a last one that stands
alone decides it (`finish`). Its covariance is read off an ensemble of hypothetical truths that take
the very same steps (`start.State`).
"""
