"""What captures remember, and who may read it when."""

from headrace.capture.delivery import Delivery, Topics
from headrace.capture.state import CaptureState, Wishes
from headrace.capture.store import (
    STATE,
    ensure_store,
    follow_wishes,
    forget,
    read_store,
    read_stores,
    store_of,
    write_wishes,
)
from headrace.kafka import Cluster as Kafka
from headrace.settings import KafkaSettings
from tests.clusters import Cluster


def test_a_run_that_was_killed_while_it_committed_holds_nobody_up(
    cluster: Cluster, fresh_name: str
) -> None:
    kafka = Kafka(KafkaSettings(bootstrap=cluster.bootstrap))
    ensure_store(kafka, fresh_name)
    delivery = Delivery(kafka, fresh_name, Topics(kafka))
    delivery.commit(CaptureState(fresh_name, position="1"))
    delivery.close()
    # As `Delivery` does it, up to the moment before the commit.
    killed = kafka.producer({"transactional.id": f"headrace-capture-{fresh_name}"})
    killed.init_transactions(30)
    killed.begin_transaction()
    unseen = CaptureState(fresh_name, position="2").to_bytes()
    killed.produce(store_of(fresh_name), unseen, STATE)
    killed.flush(30)

    seen = read_store(kafka, fresh_name).state
    assert seen is not None
    assert seen.position == "1"
    taken_over = Delivery(kafka, fresh_name, Topics(kafka))
    settled = read_store(kafka, fresh_name, settled=True).state
    taken_over.close()
    assert settled is not None
    assert settled.position == "1"


def test_wishes_are_kept_and_followed_until_all_is_forgotten(
    cluster: Cluster, fresh_name: str
) -> None:
    kafka = Kafka(KafkaSettings(bootstrap=cluster.bootstrap))
    ensure_store(kafka, fresh_name)
    wishes = follow_wishes(kafka, [fresh_name])
    next(wishes)
    write_wishes(kafka, fresh_name, Wishes(paused=True))
    found = next(batch for batch in wishes if batch)
    wishes.close()  # type: ignore[attr-defined]
    assert found == [(fresh_name, Wishes(paused=True))]
    assert read_store(kafka, fresh_name).wishes.paused
    assert any(each.wishes.paused for each in read_stores(kafka))
    assert forget(kafka, fresh_name)
    assert not forget(kafka, fresh_name)
    assert read_store(kafka, fresh_name).state is None
