"""An analysis with pandas: stores measurements with DB-API, and reads them as a data frame.

    pip install 'firn-db[pandas]'
    python weather.py FOLDER
"""

import datetime
import math
import sys

from firn import dbapi

SCHEMA = [
    "CREATE KEYSPACE IF NOT EXISTS weather"
    " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS weather.measured"
    " (station text, at timestamp, celsius double, PRIMARY KEY (station, at))",
]
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def measure(station, hours):
    """Return invented temperatures: warmer at noon and in summer."""
    for hour in range(hours):
        day = math.sin((hour % 24 - 6) / 24 * 2 * math.pi)
        year = -math.cos(hour / 24 / 365 * 2 * math.pi)
        yield station, START + datetime.timedelta(hours=hour), 10 + 12 * year + 5 * day


def load(connection, hours):
    """Create the table, and write measurements of two stations."""
    cursor = connection.cursor()
    for statement in SCHEMA:
        cursor.execute(statement)
    for station in ("coast", "valley"):
        cursor.executemany(
            "INSERT INTO weather.measured (station, at, celsius) VALUES (?, ?, ?)",
            measure(station, hours),
        )


def days(connection, station):
    """Return the coldest, mean and warmest temperature of each day."""
    rows = connection.session.execute(
        "SELECT at, celsius FROM weather.measured WHERE station = ?", (station,)
    )
    frame = rows.to_pandas().set_index("at")
    return frame["celsius"].resample("1D").agg(["min", "mean", "max"])


def main():
    with dbapi.connect(sys.argv[1]) as connection:
        load(connection, 24 * 90)
        print(days(connection, "coast").tail(3).round(1))


if __name__ == "__main__":
    main()
