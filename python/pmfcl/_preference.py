"""`prefer`: a parameter that can be called."""


class Prefer(str):
    """The preference an estimator was set up with; called, it weighs the tasks otherwise, in hindsight.

    `model.prefer` reads as the parameter (`"samples"`), `model.prefer("equal")` and `model.prefer(january=0.7, july=0.3)`
    change the fitted model.
    """

    __slots__ = ("_estimator",)

    def __new__(cls, value, estimator):
        """The parameter of an estimator."""
        self = super().__new__(cls, value)
        self._estimator = estimator
        return self

    def __call__(self, preference=None, /, *, budget=None, **weights):
        """Weighs the tasks of the fitted model otherwise; see `ContinualRegressor`."""
        return self._estimator._prefer(preference, budget, weights)


class PreferParameter:
    """Keeps the parameter where scikit-learn looks for it, and hands it out as a `Prefer`."""

    def __get__(self, estimator, owner=None):
        """The parameter, callable."""
        if estimator is None:
            return self
        try:
            return Prefer(str(vars(estimator)["prefer"]), estimator)
        except KeyError:
            raise AttributeError("prefer") from None

    def __set__(self, estimator, value):
        """Keeps what was given."""
        vars(estimator)["prefer"] = value
