"""What is found in a table: encoding, separator, names, codes of missing values, numbers and dates in text."""

from __future__ import annotations

import warnings
from datetime import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from jensen.files.layout import find_layout
from jensen.files.reading import Reading, reading_of
from jensen.files.styles import styles_of
from jensen.files.tables import read_file, read_understood, write_dataset
from jensen.files.understood import Reported


@pytest.fixture
def read(tmp_path):
    def read_text(text, reading=None, name="x.csv"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_understood(tmp_path / name, reading)

    return read_text


class TestPlainFiles:
    @pytest.mark.parametrize(
        "text",
        [
            "a,b\n1,2\n3,4\n",
            "a;b\n1;2.5\n3;\n",
            "name,town\nAda,Rome\nBob,Oslo\nEve,Rome\n",
            "a,when\nNA,2024-05-31\n2,2024-06-01 12:30\n",
            ",0,1\n0,1.5,2.5\n1,3.5,4.5\n",
            "country,2019,2020,2021\nRome,1,2,3\n",
            '"a, b",c\n1,2\n',
        ],
    )
    def test_have_nothing_to_report(self, read, text):
        table, understood = read(text)
        assert understood.is_plain, str(understood)
        expected = pd.read_csv(pd.io.common.StringIO(text), sep=understood.separator)
        dates = table.select_dtypes("datetime").columns
        pd.testing.assert_frame_equal(table.drop(columns=dates), expected.drop(columns=dates))

    def test_are_read_without_a_warning(self, tmp_path):
        write_dataset(tmp_path / "x.csv", np.random.default_rng(0).normal(size=(50, 3)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_file(tmp_path / "x.csv")


class TestLayout:
    @pytest.mark.parametrize(
        ("encoding", "said"),
        [
            ("utf-8-sig", False),
            ("utf-16", True),
            ("utf-16-le", True),
            ("latin-1", True),
            ("cp1252", True),
            ("utf-8", False),
        ],
    )
    def test_encodings(self, read, encoding, said):
        table, understood = read("größe;straße\n1;weiß\n2;blau\n".encode(encoding))
        assert table["straße"].tolist() == ["weiß", "blau"]
        assert table.columns.tolist() == ["größe", "straße"]
        assert said == any("the encoding is" in line for line in understood.findings)

    def test_a_late_letter_may_decide_the_encoding(self, read):
        table, _ = read(("a,b\n" + "1,x\n" * 40_000).encode() + "2,é\n".encode("latin-1"))
        assert table["b"].iloc[-1] == "é"

    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    @pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.psv", "x.data", "x.dat", "x.txt"])
    def test_separators(self, read, separator, name):
        table, _ = read(f"a{separator}b\n1{separator}2\n3{separator}5\n", name=name)
        assert table.to_numpy().tolist() == [[1, 2], [3, 5]]

    @pytest.mark.parametrize("name", ["x.data", "x.dat", "x.txt"])
    def test_runs_of_spaces_separate_cells_where_nothing_else_does(self, read, name):
        table, understood = read(' 18.0   8  307.0\t"chevrolet malibu"\n9.5  10    ?\tford  \n', name=name)
        assert table.columns.tolist() == ["x0", "x1", "x2", "x3"]
        assert table["x0"].tolist() == [18.0, 9.5]
        assert table["x2"].isna().tolist() == [False, True]
        assert table["x3"].tolist() == ["chevrolet malibu", "ford"]
        assert understood.missing == {"x2": {"?": 1}}
        assert len(read("first name\nAda L\nBob M\n", name="x.csv")[0].columns) == 1

    @pytest.mark.parametrize(
        "text",
        ["Dear reader,\nthis is no table,\nbut a letter, of three lines, to you.\n", "about", "one\ntwo\nthree\n"],
    )
    def test_a_text_that_is_no_table_is_refused(self, read, text):
        with pytest.raises(
            ValueError, match=r"x\.txt does not look like a table: no comma.*name it \.csv if it is one"
        ):
            read(text, name="x.txt")
        assert read("7\n8\n12\n", name="x.txt")[0]["x0"].tolist() == [7, 8, 12]

    def test_decimal_commas_do_not_hide_semicolons(self, read):
        table, _ = read("a, in m;b\n1,5;2\n3,25;4\n1;7\n")
        assert table["a, in m"].tolist() == [1.5, 3.25, 1.0]

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("5.1,3.5,setosa\n4.9,3.0,setosa\n", ("x0", "x1", "x2")),
            ("p,x\ne,x\np,y\ne,x\n", ("x0", "x1")),
            ("2020-01-01,Rome\n2020-01-02,Oslo\n", ("x0", "x1")),
            ("Ada,23\nBob,?\nEve,30\n", ("x0", "x1")),
            ("?,23\nBob,21\nEve,30\n", ("x0", "x1")),
            ("7\n8\n12\n", ("x0",)),
            ("150,4,setosa\n5.1,3.5,0\n", ("150", "4", "setosa")),
            ("0,1,2\n5,6,8\n", ("0", "1", "2")),
            ("kind\nred\nblue\nred\n", ("kind",)),
            ("a,b\n", ("a", "b")),
            ("a,b\n,\n", ("a", "b")),
            ("price,unit\n€5,kg\n€6,kg\n", ("price", "unit")),
        ],
    )
    def test_names_or_data_in_the_first_line(self, text, names):
        assert find_layout(text.encode(), ",").names == names

    def test_a_file_without_names_is_said_and_can_be_overruled(self, read):
        text = "5.1,3.5\n4.9,3.0\n"
        table, understood = read(text)
        assert (table.columns.tolist(), len(table)) == (["x0", "x1"], 2)
        assert understood.findings[0].startswith("there is no line of column names, so they are x0, x1; --header")
        table, understood = read(text, Reading(header=True))
        assert table.columns.tolist() == ["5.1", "3.5"]
        table, understood = read("a,b\n1,2\n", Reading(header=False))
        assert (table.columns.tolist(), understood.is_plain) == (["x0", "x1"], True)

    def test_spaces_behind_separators_are_no_part_of_cells(self, read):
        table, _ = read("39, State-gov, ?\n50, Private, x\n38, Private, y\n")
        assert table["x1"].tolist() == ["State-gov", "Private", "Private"]
        assert table["x2"].isna().tolist() == [True, False, False]


class TestMissing:
    @pytest.mark.parametrize("code", ["?", "-", "--", "n.a.", "na", "missing", "#DIV/0!", "."])
    def test_codes_that_can_only_mean_missing(self, read, code):
        table, understood = read(f"a,b\n1,x\n{code},y\n2,{code}\n4,y\n")
        np.testing.assert_array_equal(table["a"], [1, np.nan, 2, 4])
        assert table["b"].isna().tolist() == [False, False, True, False]
        assert understood.missing == {"a": {code: 1}, "b": {code: 1}}
        assert any(f"{code!r} is read as missing in a (1), b (1)" in line for line in understood.findings)

    def test_a_sign_is_a_level_beside_other_signs(self, read):
        table, understood = read("strand,v\n+,1\n-,2\n+,3\n")
        assert (table["strand"].tolist(), understood.missing) == (["+", "-", "+"], {})

    @pytest.mark.parametrize(
        ("values", "offered"),
        [
            ("1 2 -999 4 -999", {"-999": 2}),
            ("17 90 35 999", {"999": 1}),
            ("0.5 0.25 -9999 3", {"-9999": 1}),
            ("0 40 -9 100", {"-9": 1}),
            ("-500 -999 -700 3", {}),
            ("-9 -8 -7 -3 5", {}),
            ("900 999 950 100", {}),
            ("5 5 5 -999", {}),
        ],
    )
    def test_numbers_that_look_like_codes_are_offered_and_kept(self, read, values, offered):
        table, understood = read("a,b\n" + "".join(f"{value},x\n" for value in values.split()))
        assert table["a"].tolist() == [float(value) for value in values.split()]
        assert understood.offered == ({"a": offered} if offered else {})
        for code in offered:
            assert any(f"--missing={code} if it is a code" in line for line in understood.findings)

    def test_codes_that_are_given(self, read):
        text = "a,b\n-999,NA\n-999.0,x\n?,-999\n3,y\n"
        table, _ = read(text, reading_of("-999"))
        np.testing.assert_array_equal(table["a"], [np.nan, np.nan, np.nan, 3])
        assert table["b"].isna().tolist() == [True, False, True, False]
        table, _ = read(text, reading_of("only,-999"))
        assert table["b"].fillna("").tolist() == ["NA", "x", "", "y"]
        assert table["a"].fillna("").tolist() == ["", "", "?", "3"]

    def test_codes_that_are_given_count_in_every_format(self, tmp_path):
        pd.DataFrame({"a": [1, -999, 3], "b": ["x", "none", "y"]}).to_parquet(tmp_path / "x.parquet")
        table, _ = read_understood(tmp_path / "x.parquet", reading_of("-999,none"))
        assert table.isna().to_numpy().tolist() == [[False, False], [True, True], [False, False]]


class TestNumbers:
    @pytest.mark.parametrize(
        ("texts", "numbers"),
        [
            (["1.234,50", "12,00", "-3"], ["1234.50", "12.00", "-3"]),
            (["1,234.50", "12"], ["1234.50", "12"]),
            (["1 234,5", "2"], ["1234.5", "2"]),
            (["1\u202f234,5", "2"], ["1234.5", "2"]),
            (["1'234.50", "0.1"], ["1234.50", "0.1"]),
            (["€1.234,50", "-€12,00", "€-1,5"], ["1234.50", "-12.00", "-1.5"]),
            (["$5", "$1,234,567"], ["5", "1234567"]),
            (["5 £", "7.25 £"], ["5", "7.25"]),
            (["12%", "3.5%"], ["12", "3.5"]),
            (["0,1", "0,12345678901234567"], ["0.1", "0.12345678901234567"]),
            (["1,5e3", "2"], ["1500", "2"]),
        ],
    )
    def test_are_exact(self, texts, numbers):
        (style,) = styles_of(texts)
        assert style.read(pd.Series(texts)).tolist() == [float(Decimal(number)) for number in numbers]

    @pytest.mark.parametrize(
        "texts",
        [
            ["1,5", "2.5"],
            ["5", "€5"],
            ["12%", "0.12"],
            ["$5", "€5"],
            ["1.2.3", "4"],
            ["12:30"],
            ["5 kg"],
            ["10-K"],
            ["1,23,4"],
        ],
    )
    def test_one_value_that_does_not_fit_leaves_text(self, texts):
        assert styles_of(texts) == ()

    @pytest.mark.parametrize(
        ("texts", "written"),
        [
            (["€1.234,50", "€12,00"], "€4.321,99"),
            (["1,234.5", "12"], "4,322.0"),
            (["12 %", "3 %"], "4322 %"),
            (["0,25", "1,5"], "4321,99"),
        ],
    )
    def test_a_filled_cell_has_the_style_of_the_column(self, texts, written):
        (style,) = styles_of(texts)
        assert style.write(4321.987) == written
        assert style.write(-0.0001) in (style.write(0), f"-{style.write(0)}"[1:])

    def test_what_1_234_is_follows_from_the_file(self, read):
        assert read("a;b\n1,234;x\n5,678;y\n")[0]["a"].tolist() == [1.234, 5.678]
        assert read('a,b\n"1,234",x\n"5,678",y\n')[0]["a"].tolist() == [1234, 5678]
        table, understood = read("a;b\n1,234;2,5\n5,678;3,5\n")
        assert table["a"].tolist() == [1.234, 5.678]
        assert not any("the other way round" in line for line in understood.findings)
        table, understood = read("a;b\n1,234;x\n5,678;y\n")
        assert "a: numbers with decimal ',', or the other way round: --types 'a=number'" in understood.findings
        assert read("a;b\n1,234;x\n5,678;y\n", reading_of(types=["a=number"]))[0]["a"].tolist() == [1234, 5678]

    def test_points_are_thousands_beside_decimal_commas(self, read):
        table, understood = read("price;sold\n1,5;1.234\n2,25;12.500\n3,0;999\n")
        assert table["sold"].tolist() == [1234, 12500, 999]
        assert any("sold: numbers with decimal ',' and thousands '.'" in line for line in understood.findings)
        assert read("price;sold\n1,5;1.23\n2,25;12.5\n")[0]["sold"].tolist() == [1.23, 12.5]

    def test_zeros_in_front_are_said_and_can_be_kept(self, read):
        table, understood = read("zip,v\n01234,1\n50667,2\n")
        assert table["zip"].tolist() == [1234, 50667]
        assert any("zip has zeros in front (01234)" in line and "'zip=text'" in line for line in understood.findings)
        assert read("zip,v\n01234,1\n50667,2\n", reading_of(types=["zip=text"]))[0]["zip"].tolist() == [
            "01234",
            "50667",
        ]


class TestDates:
    @pytest.mark.parametrize(
        ("texts", "form"),
        [
            (["31/12/2020", "09/10/2022"], "%d/%m/%Y"),
            (["12/31/2020", "9/1/2022"], "%m/%d/%Y"),
            (["31.12.2020", "1.2.2021"], "%d.%m.%Y"),
            (["2020/12/31"], "%Y/%m/%d"),
            (["1 Jan 2020", "12 Feb 2020"], "%d %b %Y"),
            (["1 January 2020", "3 May 2020"], "%d %B %Y"),
            (["Jan 1, 2020", "May 13, 2020"], "%b %d, %Y"),
            (["31/12/2020 17:30", "09/10/2022 05:01"], "%d/%m/%Y %H:%M"),
            (["12/31/2020 5:30 PM", "9/10/2022 11:01 AM"], "%m/%d/%Y %I:%M %p"),
            (["31-12-20", "01-02-21"], "%d-%m-%y"),
        ],
    )
    def test_are_those_of_strptime_and_written_back(self, texts, form):
        (style,) = styles_of(texts)
        read = style.read(pd.Series(texts))
        assert read.tolist() == [datetime.strptime(text, form) for text in texts]
        if "%I" not in form:
            assert [style.write(value) for value in read] == texts

    def test_zones_become_utc(self, read):
        table, understood = read("t,a\n2020-01-01T00:00:00Z,1\n2020-01-01T00:30:00+01:00,2\n")
        expected = [
            datetime.fromisoformat("2020-01-01T00:00:00+00:00"),
            datetime.fromisoformat("2020-01-01T00:30:00+01:00"),
        ]
        assert table["t"].tolist() == expected
        assert str(table["t"].dt.tz) == "UTC"  # in microseconds, or nanoseconds before pandas 3
        assert "t: dates with a time zone, as UTC" in understood.findings

    def test_an_open_order_is_said_and_can_be_overruled(self, read):
        text = "d,v\n09/10/2022,1\n10/11/2022,2\n"
        table, understood = read(text)
        assert table["d"].tolist() == [datetime(2022, 10, 9), datetime(2022, 11, 10)]
        assert "d: dates written day/month/year, or the other way round: --types 'd=month-first'" in understood.findings
        table, understood = read(text, reading_of(types=["d=month-first"]))
        assert table["d"].tolist() == [datetime(2022, 9, 10), datetime(2022, 10, 11)]
        assert not any("the other way round" in line for line in understood.findings)
        # Another column of the same file tells.
        table, understood = read("d,e\n09/10/2022,12/31/2020\n10/11/2022,01/01/2020\n")
        assert table["d"].tolist() == [datetime(2022, 9, 10), datetime(2022, 10, 11)]

    @pytest.mark.parametrize(
        "texts", [["2024-02-31"], ["31/31/2020"], ["1 Jan 2020", "2020-01-01"], ["20240531x"], ["May"]]
    )
    def test_what_is_no_date_stays_text(self, texts):
        assert styles_of(texts) == ()


class TestHints:
    def test_running_numbers_and_many_levels(self, read):
        lines = [f"{i},town {i % 150},{i % 7}" for i in range(600)]
        _, understood = read("id,town,v\n" + "\n".join(lines))
        assert (understood.identifiers, understood.many_levels) == (("id",), {"town": 150})
        assert "id counts rows like an identifier; --drop to leave it out" in understood.findings
        assert "town is text with 150 levels; --drop it, or merge rare values" in understood.findings
        assert read("id,town,v\n" + "\n".join(lines), Reading(aside=("id", "town")))[1].is_plain
        assert read("id,town,v\n" + "\n".join(lines), Reading(hints=False))[1].is_plain

    @pytest.mark.parametrize("n", [50, 25_000])
    def test_a_long_column_is_understood_as_a_short_one(self, read, n):
        text = "a,b,c\n" + "1,red,x\n2,blue,y\n" * n + "?,?,y\n"
        table, understood = read(text)
        assert understood.missing == {"a": {"?": 1}, "b": {"?": 1}}
        assert table["b"].isna().sum() == table["a"].isna().sum() == 1
        late = "a,b\n" + "1,x\n" * n + "town,y\n"
        assert read(late)[0]["a"].dtype.kind not in "if"


class TestOverruled:
    def test_text_stays_as_it_is_written(self, read):
        table, understood = read("a,b\n€5,1\n€7,2\n", reading_of(types=["a=text,b=text"]))
        assert table.to_numpy().tolist() == [["€5", "1"], ["€7", "2"]]
        assert understood.is_plain

    @pytest.mark.parametrize(
        ("types", "message"),
        [
            (["c=text"], "--types names the column 'c', which is not there; there are a, b"),
            (
                ["a=number"],
                "--types a=number, but the column holds 'x', and not all values can be read so; give a=text",
            ),
            (["b=date"], "--types b=date, but the column holds '1'"),
        ],
    )
    def test_a_type_that_does_not_fit_is_an_error(self, read, types, message):
        with pytest.raises(ValueError, match=message):
            read("a,b\n5,1\nx,2\n", reading_of(types=types))

    @pytest.mark.parametrize("word", ["a", "a=colour", "=", "a=text,b"])
    def test_words_that_are_no_types(self, word):
        with pytest.raises(
            ValueError, match=r"--types .* must be a column and what it is, such as zip=text; choose text, n"
        ):
            reading_of(types=[word])


def test_the_report_is_a_warning_of_a_few_lines(tmp_path):
    (tmp_path / "x.csv").write_text("5,1;?\n4,9;x\n3,0;y\n")
    with pytest.warns(Reported) as heard:
        read_file(tmp_path / "x.csv")
    assert str(heard[0].message).splitlines() == [
        f"{tmp_path / 'x.csv'}: 3 rows, 2 columns (1 of numbers, 1 of text)",
        "  there is no line of column names, so they are x0, x1; --header if the first line is one",
        "  x0: numbers with decimal ','",
        "  '?' is read as missing in x1 (1); --missing only,CODES for other codes",
    ]
