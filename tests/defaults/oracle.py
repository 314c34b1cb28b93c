"""The model of all rows by NumPy alone, at the ridge or shrinkage that was chosen."""

import numpy as np

# A column with a standard deviation below this share of its root mean square is constant, by definition.
CONSTANT = 3e-7
# Of a feature that is constant within classes: the variance it is given, as a share of its total variance.
LEAST_VARIANCE = 1e-6


def ridge(table, penalty, X):
    """Predictions of ridge regression on standardized columns, the penalty on the mean loss."""
    w = np.ones(len(table.X)) if table.weights is None else table.weights
    share = w / w.sum()
    y = table.y.reshape(len(table.X), -1)
    centre, middle = share @ table.X, share @ y
    scale = np.sqrt(share @ (table.X - centre) ** 2)
    active = scale > CONSTANT * np.hypot(scale, centre)
    scaled = (table.X - centre)[:, active] / scale[active] * np.sqrt(share)[:, None]
    u, s, vt = np.linalg.svd(scaled, full_matrices=False)
    along = u.T @ ((y - middle) * np.sqrt(share)[:, None])
    kept = s > 1e-14 * s[:1]
    coefficients = vt[kept].T @ (along[kept] * (s[kept] / (s[kept] ** 2 + penalty))[:, None])
    predicted = (X - centre)[:, active] / scale[active] @ coefficients + middle
    return predicted[:, 0] if table.y.ndim == 1 else predicted


def discriminants(table, shrinkage, X):
    """Probabilities of linear discriminants, the covariance drawn toward its diagonal by a share of `shrinkage`."""
    w = np.ones(len(table.X)) if table.weights is None else table.weights
    classes = np.unique(table.y)
    freedom = w.sum() - len(classes)
    if freedom <= 0.5:
        return None
    indicators = (table.y[:, None] == classes) * w[:, None]
    counts = indicators.sum(axis=0)
    means = indicators.T @ table.X / counts[:, None]
    centre = w @ table.X / w.sum()
    within = (table.X - means[np.searchsorted(classes, table.y)]) * np.sqrt(w / freedom)[:, None]
    total = w @ (table.X - centre) ** 2 / w.sum()
    squares = total + centre**2
    active = total > CONSTANT**2 * squares
    least = np.maximum(LEAST_VARIANCE * total, CONSTANT**2 * squares)
    scale = np.sqrt(np.maximum((within**2).sum(axis=0), least))[active]
    stacked = np.vstack([np.sqrt(1 - shrinkage) * within[:, active] / scale, np.sqrt(shrinkage) * np.eye(active.sum())])
    root = np.linalg.qr(stacked, mode="r")
    white = np.linalg.solve(root.T, ((means - centre)[:, active] / scale).T)
    rows = np.linalg.solve(root.T, ((X - centre)[:, active] / scale).T)
    scores = rows.T @ white - (white**2).sum(axis=0) / 2 + np.log(counts / w.sum())
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def one_fit(table, model, X):
    """What the model of one fit must say of rows."""
    if table.classes:
        return discriminants(table, model.shrinkage_, X)
    return ridge(table, model.ridge_, X)
