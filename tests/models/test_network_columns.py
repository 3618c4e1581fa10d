"""Columns of any kind in models with networks: atoms, unseen levels, constants, dates, identifiers."""

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import trapezoid
from scipy.stats import norm

import jensen
from jensen import MLP, VAE, Autoencoder, Diffusion, LatentDiffusion, ResidualMLP
from jensen.data.cells import read_cells
from jensen.data.codes import UnseenValueWarning
from jensen.data.infer import learn_columns
from jensen.data.network_columns import NetworkColumns, atom_pairs
from jensen.data.scaled import learn_scaled

N = 400
SMALL = MLP(hidden=(8,))


def vae(**arguments):
    given = {"encoder": SMALL, "decoder": SMALL, "max_epochs": 3, "random_state": 0, "evaluation_samples": 20}
    return VAE(1, **(given | arguments))


def diffusion(**arguments):
    return Diffusion(**({"n_steps": 8, "network": ResidualMLP(8, 1), "max_epochs": 3, "random_state": 0} | arguments))


def latent_diffusion(**arguments):
    prior = Diffusion(n_steps=8, objective="variational", network=ResidualMLP(8, 1), max_epochs=2)
    return LatentDiffusion(vae(random_state=None), prior, random_state=0, **arguments)


def autoencoder(**arguments):
    return Autoencoder(1, encoder=SMALL, decoder=SMALL, max_epochs=3, random_state=0, **arguments)


SCORED = pytest.mark.parametrize("make", [vae, diffusion, latent_diffusion])
ALL = pytest.mark.parametrize("make", [vae, diffusion, latent_diffusion, autoencoder])


def of_seeds(model, rows, n_seeds):
    """Bounds (n_seeds, n): within one seed, equal rows have equal draws."""
    return np.stack([model.set_params(random_state=seed).bound(rows).total for seed in range(n_seeds)])


def gains(n=N, seed=0):
    """60 % zeros beside numbers around 5."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.6, 0.0, rng.normal(5.0, 1.0, n))


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "name": [f"P{i}" for i in range(n)],
            "row": np.arange(n),
            "gain": gains(n, seed),
            "visits": rng.poisson(20, n),
            "town": rng.choice(["Bonn", "Oslo", "Rome"], n),
            "member": rng.random(n) < 0.3,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "country": "DE",
        }
    )


MODELLED = ["gain", "visits", "town", "member", "since", "country"]
TABLE = table()[MODELLED]


def quietly(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


class TestSplit:
    """The columns of the table, those of the networks, and the way back."""

    def columns(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return learn_scaled(read_cells(TABLE, dates=True), "auto", atoms=True)

    def test_kinds(self):
        columns = self.columns()
        assert columns.kinds == ("number", "number", "level", "yes/no", "date", "constant")
        assert columns.atoms == ((0.0,), (), (), (), (), ())
        assert NetworkColumns.of(columns).inner.kinds == ("number", "number", "level", "yes/no", "number", "level")
        assert columns.measure == ("both", "density", "probability", "probability", "density", "probability")

    def test_a_number_is_missing_at_an_atom_and_has_a_level(self):
        columns = self.columns()
        x = columns.encode(TABLE)
        parts = NetworkColumns.of(columns)
        y = parts.split(x)
        is_zero = (TABLE["gain"] == 0).to_numpy()
        assert_array_equal(y[:, 0].isnan(), is_zero)
        assert_array_equal(y[:, -1], is_zero)
        assert_array_equal(parts.join(y), x.nan_to_num())

    def test_the_others_are_standardised(self):
        columns = self.columns()
        rest = TABLE["gain"][TABLE["gain"] != 0]
        assert_allclose(columns.location[0], rest.mean())
        assert_allclose(columns.scale[0], rest.std(ddof=0))

    def test_atoms_come_back_to_the_last_digit(self):
        X = pd.DataFrame({"a": np.where(np.arange(90) % 3 > 0, 0.1, np.random.default_rng(0).normal(7, 3, 90))})
        columns = learn_scaled(read_cells(X), "auto", atoms=True)
        assert columns.atoms == ((0.1,),)
        parts = NetworkColumns.of(columns)
        back = columns.frame(parts.join(parts.split(columns.encode(X)).float()))["a"]
        assert_array_equal(back == 0.1, X["a"] == 0.1)

    def test_missing_values_stay_missing_in_both_columns(self):
        columns = self.columns()
        parts = NetworkColumns.of(columns)
        y = parts.split(columns.encode(TABLE.assign(gain=np.nan)))
        assert y[:, [0, -1]].isnan().all()

    def test_an_expected_number_has_its_atoms_in_it(self):
        parts = NetworkColumns.of(self.columns())
        y = torch.zeros(1, len(parts.inner.names))
        y[0, 0], y[0, -1] = 0.25, 1.0
        assert parts.join(y, is_expected=True)[0, 0] == 0.25
        assert parts.join(y)[0, 0] == atom_pairs(parts.inner)[0].values[0]

    def test_plain_tables_are_as_they_are(self):
        columns = learn_columns(np.random.default_rng(0).normal(size=(50, 3)))
        assert NetworkColumns.of(columns).inner is columns

    def test_arrays_and_grids_have_no_atoms_that_images_would_not_have(self):
        digits = np.random.default_rng(0).binomial(1, 0.3, (60, 4)) * np.arange(60)[:, None] % 17 / 16
        assert not any(quietly(vae(), digits).columns_.atoms)
        assert quietly(vae(), gains()[:, None]).columns_.atoms == ((0.0,),)
        assert not any(quietly(vae(), gains().reshape(-1, 2, 2)).columns_.atoms)

    def test_iris_has_none(self):
        from sklearn.datasets import load_iris

        assert not any(quietly(vae(), load_iris().data).columns_.atoms)

    def test_a_user_may_choose(self):
        X = pd.DataFrame({"gain": gains(), "size": np.random.default_rng(1).normal(size=N)})
        assert quietly(vae(columns={"gain": "number"}), X).columns_.atoms == ((0.0,), ())
        assert quietly(vae(columns={"gain": {"kind": "number", "atoms": []}}), X).columns_.atoms == ((), ())
        asked = {"size": {"atoms": [1.0]}, "gain": {"atoms": []}}
        assert quietly(diffusion(columns=asked), X).columns_.atoms == ((), (1.0,))
        with pytest.raises(ValueError, match="columns has low=0, but the density of a network has no bounds; leave it"):
            vae(columns={"gain": {"low": 0}}).fit(X)


class TestAtoms:
    def test_a_vae_has_a_probability_at_the_atom_and_a_density_elsewhere(self):
        """∫ p(x) dx + P(0) = 1, with ln p by quadrature over z: x | z ~ P(atom | z), else N(mean(z), σ²)."""
        model = quietly(vae(max_epochs=10), gains()[:, None])
        z = torch.linspace(-6, 6, 401)[:, None]
        grid = np.linspace(-20, 40, 4001)
        module, parts = model.module_, model._parts
        prior = norm.pdf(z[:, 0])
        with torch.no_grad():
            outputs = module.decode(z)

            def density(x):
                rows = parts.split(model.columns_.encode(x[:, None])).float()
                seen = ~rows.isnan()
                each = module.emission.log_prob(outputs[:, None].expand(-1, len(x), -1), rows.nan_to_num(), seen)
                nats = each + parts.inner.log_jacobian(seen)
                return trapezoid(prior[:, None] * nats.detach().double().exp().numpy(), z[:, 0], axis=0)

        # The grid has the atom itself in it, which has no length.
        rest = density(grid + 1e-3)
        at_zero = density(np.zeros(1))[0]
        assert_allclose(trapezoid(rest, grid) + at_zero, 1.0, atol=1e-4)
        assert 0.4 < at_zero < 0.8
        # The score is a bound of the same ln p, in expectation.
        for x in (0.0, 5.0):
            found = model.bound(np.full((1, 1), x), importance_samples=2000)
            assert abs(found.total[0] - math.log(density(np.array([x]))[0])) < 4 * found.standard_error[0] + 0.02

    def test_a_diffusion_has_the_bound_of_the_pair(self):
        """A network without weights: independent levels and N(0, 1) numbers, whose ln p is known.

        ln P(atom) at the atom, and ln P(no atom) + ln N(x; m, s²) elsewhere; the network's own bound is exact for
        numbers if it predicts velocity 0 and the variance is β.
        """
        X = gains(2000)[:, None]
        model = quietly(diffusion(n_steps=100, max_epochs=1, evaluation_levels="all"), X)
        for weight in model.module_.network.parameters():
            torch.nn.init.zeros_(weight)
        columns = model.columns_
        share = model.module_.space.log_frequencies(0).exp()
        assert_allclose(share[1], (X == 0).mean(), atol=0.01)
        found = of_seeds(model, np.array([[0.0], [5.0], [6.5]]), 100)
        m, s = columns.location.item(), columns.scale.item()
        expected = np.log([share[1], share[0] * norm.pdf(5.0, m, s), share[0] * norm.pdf(6.5, m, s)])
        # The bound of the level has a gap, which is the same for all rows at one level.
        gap = expected - found.mean(0)
        error = found.std(0) / 10
        assert (gap > -4 * error).all()
        assert gap.max() < 0.2

    @SCORED
    def test_samples_have_exact_zeros_in_the_share_of_the_data(self, make):
        X = pd.DataFrame({"gain": gains(1000), "size": np.random.default_rng(1).normal(size=1000)})
        arguments = {} if make is latent_diffusion else {"max_epochs": 20}
        drawn = quietly(make(**arguments), X).sample(2000, random_state=0)[0]
        share = (X["gain"] == 0).mean()
        # Sampling errors of both tables, and of the trained networks.
        assert (
            abs((drawn["gain"] == 0).mean() - share) < 4 * math.sqrt(share * (1 - share) * (1 / 2000 + 1 / 1000)) + 0.05
        )
        rest = drawn["gain"][drawn["gain"] != 0]
        assert abs(rest.median() - 5) < 1

    @SCORED
    def test_measure_and_file(self, make, tmp_path):
        model = quietly(make(), TABLE)
        assert model.measure_[0] == "both"
        assert make().find_measure(TABLE) == model.measure_
        model.save(tmp_path / "m")
        again = jensen.load(tmp_path / "m")
        assert_array_equal(again.score_samples(TABLE), model.score_samples(TABLE))
        assert_array_equal(again.sample(20, random_state=0)[0], model.sample(20, random_state=0)[0])

    def test_a_missing_number_is_imputed_by_its_mean_atoms_included(self):
        X = np.column_stack([gains(600), np.random.default_rng(1).normal(size=600)])
        model = quietly(vae(max_epochs=20), X)
        filled = model.impute(np.array([[np.nan, 0.0]]), importance_samples=2000)
        assert abs(filled[0, 0] - X[:, 0].mean()) < 0.5
        draws = np.array([copy[0, 0] for copy in model.impute_draws(np.array([[np.nan, 0.0]]), 300)])
        assert 0.4 < (draws == 0).mean() < 0.8
        means = quietly(diffusion(max_epochs=10), X).impute(np.array([[np.nan, 0.0]]), n_draws=200, resamplings=1)
        assert 0.5 < means[0, 0] < 3.5

    def test_an_autoencoder_has_none(self):
        assert not any(quietly(autoencoder(), TABLE).columns_.atoms)


class TestUnseen:
    @SCORED
    def test_an_unseen_level_is_missing_with_a_probability_of_its_own(self, make):
        model = quietly(make(), TABLE)
        rows = TABLE.iloc[:5]
        others = rows.assign(town="Paris", country="FR")
        with pytest.warns(UnseenValueWarning, match="'Paris' in row 0, column 'town', .* and 9 more cells") as told:
            found = model.score_samples(others)
        assert len(told) == 1
        assert model.can_score(others).all()
        if make is not diffusion:
            assert_allclose(found, model.score_samples(rows.assign(town=None)) - 2 * math.log(N + 1), atol=1e-4)
        known = model.score_samples(rows)
        with pytest.warns(UnseenValueWarning, match="'FR'"):
            assert_allclose(model.score_samples(rows.assign(country="FR")), known - math.log(N + 1), atol=1e-4)

    def test_of_a_diffusion_the_bound_holds_for_every_level(self):
        """ln p(rest) = ln Σ_l p(rest, l), of which the bound with the frequencies of levels is one."""
        X = pd.DataFrame({"size": np.random.default_rng(0).normal(size=N), "town": list("abbc") * (N // 4)})
        model = quietly(diffusion(max_epochs=10), X)
        # Almost equal rows, as equal ones have equal draws.
        rows = pd.DataFrame({"size": 1e-6 * np.arange(2000), "town": "z"})
        with pytest.warns(UnseenValueWarning):
            found = model.bound(rows, levels="all").total.mean() + math.log(N + 1)
        each = [model.bound(rows.assign(town=level), levels="all").total.mean() for level in "abc"]
        assert abs(found - np.logaddexp.reduce(each)) < 0.3
        assert found < np.logaddexp.reduce(each) + 0.1

    @ALL
    def test_other_methods_read_such_rows(self, make):
        model = quietly(make(), TABLE)
        others = TABLE.iloc[:5].assign(town="Paris", member=2, gain=[1.0, np.nan, 3.0, 4.0, 0.0])
        if make is autoencoder:
            with pytest.warns(UnseenValueWarning):
                error = model.reconstruction_error(others)
            assert np.isfinite(error).all()
            return
        with pytest.warns(UnseenValueWarning):
            filled = model.impute(others)
        assert filled["town"].tolist() == ["Paris"] * 5
        assert filled["member"].tolist() == [2] * 5
        assert not filled["gain"].isna().any()

    def test_a_third_value_of_yes_no(self):
        X = pd.DataFrame({"flag": [0, 1] * 50, "size": np.random.default_rng(0).normal(size=100)})
        model = quietly(vae(), X)
        with pytest.warns(UnseenValueWarning, match="X holds 2 in row 0, column 'flag'"):
            found = model.score_samples(X.iloc[:1].assign(flag=2))
        alone = model.score_samples(X.iloc[:1].assign(flag=np.nan))
        assert_allclose(found, alone - math.log(101), atol=1e-5)

    def test_of_images_they_stay_errors(self):
        images = np.random.default_rng(0).integers(0, 3, (40, 2, 2))
        for model, match in (
            (vae(likelihood="categorical"), "none of its levels"),
            (diffusion(), "none of the 3 levels"),
        ):
            with pytest.raises(ValueError, match=match):
                quietly(model, images).score_samples(images[:2] + 5)
        with pytest.raises(ValueError, match=r"outside \[0, 1\]"):
            quietly(vae(likelihood="bernoulli"), images / 2).score_samples(images[:2] + 5)


class TestConstants:
    @SCORED
    def test_a_constant_costs_nothing(self, make):
        X = pd.DataFrame(
            {"a": np.random.default_rng(0).normal(size=100), "b": np.random.default_rng(1).normal(size=100)}
        )
        with pytest.warns(UserWarning, match=r"X has columns with one value: 'c' \(7\); this value has probability 1"):
            model = make().fit(X.assign(c=7))
        assert_allclose(model.score_samples(X.assign(c=7)), quietly(make(), X).score_samples(X), atol=1e-6)
        drawn = model.sample(3)[0]
        assert drawn["c"].tolist() == [7, 7, 7]
        assert drawn["c"].dtype == np.int64
        assert model.impute(X.assign(c=np.nan).iloc[:3])["c"].tolist() == [7, 7, 7]

    @SCORED
    def test_a_table_of_constants_fits(self, make):
        X = np.tile([1.0, 2.0], (40, 1))
        model = quietly(make(), X)
        # A bound of ln 1, which the networks of z may miss.
        assert -2 < of_seeds(model, X[:1], 100).mean() < 0.05
        assert_array_equal(model.sample(2)[0], X[:2])


class TestWhatComesBack:
    @SCORED
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
    def test_types_ranges_and_whole_numbers(self, make, frame):
        X = frame(TABLE)
        drawn = quietly(make(), X).sample(200, random_state=0)[0]
        assert [str(dtype) for dtype in drawn.dtypes] == [str(dtype) for dtype in X.dtypes]
        for name in ("gain", "visits", "since"):
            assert drawn[name].min() >= X[name].min()
            assert drawn[name].max() <= X[name].max()

    @SCORED
    def test_imputed_cells(self, make):
        X = TABLE.astype({"visits": "Int64", "member": "boolean"})
        model = quietly(make(), X)
        holed = X.iloc[:8].copy()
        for i, name in enumerate(X):
            holed.iloc[i, holed.columns.get_loc(name)] = None
        full = model.impute(holed)
        assert full.dtypes.tolist() == X.dtypes.tolist()
        assert not full.isna().any(axis=None)
        assert full[holed.notna()].equals(holed[holed.notna()])

    def test_whole_numbers_on_a_grid(self):
        X = pd.DataFrame(np.random.default_rng(0).integers(0, 9, (200, 2)), columns=["a", "b"]).astype("Int64")
        model = quietly(diffusion(), X)
        assert model.columns_.is_grid
        assert model.sample(5)[0].dtypes.tolist() == X.dtypes.tolist()
        assert model.impute(X.mask(np.arange(400).reshape(200, 2) % 5 == 0)).dtypes.tolist() == X.dtypes.tolist()

    def test_arrays_are_neither_rounded_nor_clipped(self):
        X = np.random.default_rng(0).integers(0, 9, (200, 2)).astype(float)
        drawn = quietly(vae(), X).sample(500, random_state=0)[0]
        assert drawn.min() < 0
        assert (drawn % 1 > 0).any()

    @ALL
    def test_dates_are_numbers(self, make):
        model = quietly(make(), TABLE)
        assert model.columns_.units[MODELLED.index("since")] == "days"
        if make is autoencoder:
            assert model.reconstruct(TABLE)["since"].dtype == TABLE["since"].dtype
            return
        later = TABLE.iloc[:3].assign(since=TABLE["since"][:3] + pd.Timedelta(days=20_000))
        assert (model.score_samples(later) < model.score_samples(TABLE.iloc[:3])).all()
        with pytest.raises(ValueError, match="X holds no dates or times in column 'since'"):
            model.score_samples(TABLE.iloc[:3].assign(since=1.0))

    @ALL
    def test_identifiers_are_left_out(self, make):
        X = table()
        with pytest.warns(UserWarning, match="which are left out: 'name', 'row'; keep one by its kind"):
            model = make().fit(X)
        assert model.columns_.left_out == ("name", "row")
        if make is not autoencoder:
            assert_array_equal(model.score_samples(X), model.score_samples(X.assign(name="other", row=0)))
            assert not {"name", "row"} & set(model.sample(2)[0])
            full = model.impute(X.iloc[:3].assign(gain=np.nan))
            assert full["name"].tolist() == ["P0", "P1", "P2"]
        with pytest.warns(UserWarning, match="left out: 'name'; keep"):
            assert "row" in make(columns={"row": "number"}).fit(X).columns_.names
