"""Constructs, functions and types that a query may contain.

Names are sqlglot's: a construct is the class that the parser creates, so one entry covers all dialects.
Everything else is rejected, including constructs that later versions of the parser add. Excluded on purpose:

- anything that writes, locks or configures;
- anything in place of a table that is not a table (table functions, files, LATERAL, UNNEST, VALUES);
- anything that generates rows or long strings (generate_series, repeat, recursion);
- anything that reads the server, the session or the clock, except for the current date.
"""

from __future__ import annotations

ROOTS = frozenset({"Select", "Union", "Except", "Intersect", "Subquery"})

CONSTRUCTS = ROOTS | frozenset(
    """
    Add Alias All And Any Between Boolean Case Cast Collate Column CTE DataType DataTypeParam Distinct Div DPipe
    EQ Escape Exists Filter From GT GTE Group Having Identifier If ILike In IntDiv Interval Is Join Like Limit
    Literal LT LTE Mod Mul NEQ Neg Not Null NullSafeEQ NullSafeNEQ Offset Or Order Ordered Paren Select Star Sub
    Table TableAlias TryCast Tuple Var Where Window WindowSpec With WithinGroup TsOrDsToDate TsOrDsToTimestamp
    TimeUnit
    """.split()  # noqa: SIM905 - a list this long reads better as words
)

# sqlglot classes; functions without a class are listed by name (NAMED_FUNCTIONS).
FUNCTIONS = frozenset(
    """
    Abs ApproxDistinct Avg Ceil Coalesce Concat ConcatWs Count CountIf CurrentDate CurrentTimestamp CumeDist
    Date DateAdd DateDiff DateStrToDate DateSub DateTrunc Datetime DatetimeTrunc Day DayOfMonth DayOfWeek
    DayOfWeekIso DayOfYear DenseRank Extract First FirstValue Floor Greatest GroupConcat Hour Initcap Lag Last
    LastValue Lead Least Left Length Lower LTrim Max Median Min Minute Month Ntile Nullif PercentRank
    PercentileCont PercentileDisc Pow Quarter Rank Right Round RowNumber RTrim Second Sign Sqrt Stddev StddevPop
    StddevSamp StrPosition StrToDate StrToTime Strftime Substring Sum SafeDivide TimestampTrunc TimeToStr
    TimestampAdd TimestampSub Trim Trunc TsOrDsAdd TsOrDsDiff Upper Variance VariancePop Week WeekOfYear Year
    Bround Cbrt Exp Ln Log Mode Quantile Replace StrToUnix
    """.split()  # noqa: SIM905 - a list this long reads better as words
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# By dialect, because a name that one database does not define may be a user-defined function there.
NAMED_FUNCTIONS = {
    "sqlite": _words(
        "julianday strftime date datetime time total instr ifnull iif nullif round trunc ltrim rtrim replace"
    ),
    "duckdb": _words(
        "strftime date_part age left right ltrim rtrim instr ifnull nullif round trunc monthname dayname last_day"
        " make_date replace concat position typeof"
    ),
    "postgres": _words(
        "date_part age left right ltrim rtrim nullif round trunc to_char make_date replace concat position"
    ),
}

TYPES = frozenset(
    """
    BIGINT BOOLEAN CHAR DATE DATETIME DECIMAL DOUBLE FLOAT INT INTERVAL MEDIUMINT NCHAR NVARCHAR SMALLINT TEXT
    TIME TIMESTAMP TIMESTAMPNTZ TIMESTAMPTZ TINYINT UBIGINT UINT USMALLINT UTINYINT UUID VARCHAR BIGDECIMAL
    UDECIMAL
    """.split()  # noqa: SIM905 - a list this long reads better as words
)

# The schema of a table without a qualifier, and prefixes of names that the database reserves.
DEFAULT_SCHEMAS = {"sqlite": "main", "duckdb": "main", "postgres": "public"}
SYSTEM_NAMES = ("sqlite_", "pg_", "duckdb_", "pragma_", "information_schema", "fts5")
