"""The models of a blend: their names, what they can do together, and whether their scores have one unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jensen.contract.capabilities import Capabilities
from jensen.contract.model import LatentVariableModel


def default_models() -> list[Any]:
    from jensen.models.factors.probabilistic_pca import ProbabilisticPCA
    from jensen.models.mixtures.gaussian_mixture import GaussianMixture

    return [GaussianMixture(), ProbabilisticPCA()]


def named_models(models: Any) -> dict[str, Any]:
    """Models by name; without names, by their class, with a number if there are several."""
    if models is None:
        models = default_models()
    if isinstance(models, Mapping):
        found = {str(name): model for name, model in models.items()}
    else:
        found, classes = {}, [type(model).__name__ for model in models]
        for i, model in enumerate(models):
            name, count = classes[i], classes[: i + 1].count(classes[i])
            found[name if count == 1 else f"{name} {count}"] = model
    if not found:
        raise ValueError("models is empty; give at least one model")
    for name, model in found.items():
        if not isinstance(model, LatentVariableModel):
            got = model.__name__ if isinstance(model, type) else repr(model)
            way_out = f", such as {got}()" if isinstance(model, type) else ""
            raise TypeError(f"models[{name!r}]={got} is no model of jensen; give one that is not fitted{way_out}")
        model.score_samples  # noqa: B018 (where there is none, the cause says why)
    return found


def common(each: Sequence[Capabilities]) -> Capabilities:
    """What models can do together."""
    values = {can.values for can in each}
    return Capabilities(
        score="exact" if all(can.score == "exact" for can in each) else "bound",
        missing_in_fit=all(can.missing_in_fit for can in each),
        missing_in_score=all(can.missing_in_score for can in each),
        text=all(can.text for can in each),
        values="counts" if "counts" in values else "nonnegative" if "nonnegative" in values else "real",
        images=all(can.images for can in each),
        weights=all(can.weights for can in each),
        predict=True,
    )


def check_measures(models: Mapping[str, Any]) -> None:
    """An error unless all fitted models have a density for the same columns, and probabilities of the same values."""
    (first, model), *others = models.items()
    measure, atoms = tuple(model.measure_), atoms_of(model)
    for name, other in others:
        if len(other.measure_) != len(measure):
            raise ValueError(
                f"models[{name!r}] scores {len(other.measure_)} columns, but {first!r} {len(measure)}; fit them to the "
                "same columns"
            )
        apart = [j for j, (one, two) in enumerate(zip(measure, other.measure_, strict=True)) if one != two]
        if apart:
            j = apart[0]
            column = list(getattr(model, "feature_names_in_", range(len(measure))))[j]
            raise ValueError(
                f"models[{name!r}] gives column {column!r} a {other.measure_[j]}, but {first!r} a {measure[j]}: these "
                "scores have different units, and their models cannot be blended; leave one of them out"
            )
        if "both" in measure and atoms_of(other) != atoms:
            raise ValueError(
                f"models[{name!r}] gives other numbers a probability of their own than {first!r} does, and they "
                "cannot be blended; give both the same columns={...}"
            )


def atoms_of(model: Any) -> Any:
    columns = getattr(model, "columns_", None)
    return None if columns is None else dict(zip(columns.names, columns.atoms, strict=True))
