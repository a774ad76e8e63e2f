import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from headrace.records import Codec, iterate_headers, validate_batch
from headrace.records.arrow import (
    Producer,
    decode,
    encode_for_producer,
    partitions_by_key,
    rows_by_group,
    sources,
)

KEYS = st.lists(st.none() | st.binary(max_size=40), max_size=50)


def table(keys: list[bytes | None]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([b"%d" % row for row in range(len(keys))], pa.binary()),
        }
    )


@given(KEYS, st.integers(1, 100))
@settings(deadline=None)
def test_a_key_goes_where_other_clients_send_it(keys: list[bytes | None], partitions: int):
    keyless = partitions - 1
    expected = [
        keyless if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions for key in keys
    ]
    assert partitions_by_key(sources(table(keys)), partitions, keyless=keyless).tolist() == expected


def test_known_keys_go_where_java_sends_them():
    # From the tests of Kafka's own clients: murmur2 as a signed number.
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    most = (1 << 31) - 1
    chosen = partitions_by_key(sources(table(list(known))), most)
    assert chosen.tolist() == [(number & most) % most for number in known.values()]


@given(st.lists(st.integers(0, 6), max_size=60))
@settings(deadline=None)
def test_rows_of_a_group_keep_their_order(groups: list[int]):
    found = {group: rows.tolist() for group, rows in rows_by_group(np.array(groups, np.int32), 7)}
    assert found == {
        group: [row for row, each in enumerate(groups) if each == group] for group in set(groups)
    }


@given(KEYS, st.integers(1, 5), st.sampled_from([Codec.NONE, Codec.LZ4]))
@settings(deadline=None)
def test_selected_records_are_encoded_as_they_are(
    keys: list[bytes | None], partitions: int, codec: Codec
):
    records = sources(table(keys))
    seen: list[bytes] = []
    for _, rows in rows_by_group(partitions_by_key(records, partitions), partitions):
        batches = list(
            encode_for_producer(
                records.select(rows),
                Producer(7, 2),
                sequence=(1 << 31) - 2,
                transactional=True,
                codec=codec,
                max_bytes=100,
            )
        )
        values: list[bytes] = []
        for batch in batches:
            ((_, header),) = iterate_headers(batch.data)
            validate_batch(batch.data, header)
            assert header.base_offset == 0
            assert header.is_transactional
            assert (header.producer_id, header.producer_epoch) == (7, 2)
            assert header.base_sequence == ((1 << 31) - 2 + batch.first_row) % (1 << 31)
            assert header.record_count == batch.records
            values += decode(batch.data).column("value").to_pylist()
        assert values == [b"%d" % row for row in rows.tolist()]
        seen += values
    assert sorted(seen) == sorted(b"%d" % row for row in range(len(keys)))
