"""Alarms: what is wrong now, what was, and by which rules."""

from nicegui import ui

from headrace.console.alerting.rules import LIMITS
from headrace.console.frame import Console, frame, live, now_ms
from headrace.console.widgets import PagedTable, Row, column, empty, facts, heading, tag
from headrace.console.wording import ago, count, duration, moment, size
from headrace.settings import AlertRule, ConsoleAlert


def register(console: Console) -> None:
    """Make the page known."""

    @ui.page("/alerts")
    def alerts() -> None:
        with frame(console, "Alerts", at="/alerts"):
            _show(console)


def _show(console: Console) -> None:
    watch = console.alerts
    heading("Alerts", "What is out of bounds, by the rules of headrace.toml.")
    change = facts({"Now": "0", "Remembered": "0", "Not delivered": "0"})
    now = ui.column().classes("w-full gap-2")
    quiet = empty(
        "check_circle", "Nothing is out of bounds", "Alarms show here as they are raised."
    )
    ui.label("History").classes("hr-heading")

    def rows() -> list[Row]:
        return [
            {
                "id": f"{number} {each.at_ms} {each.subject}",
                "time": moment(each.at_ms),
                "state": "firing" if each.firing else "recovered",
                "health": "bad" if each.firing else "ok",
                "subject": each.subject,
                "href": each.link,
                "text": each.text,
            }
            for number, each in enumerate(watch.history)
        ]

    table = PagedTable(
        [
            column("time"),
            column("state", kind="tag"),
            column("subject", "About", kind="link"),
            column("text", "What"),
        ],
        rows,
        sort="time",
        descending=True,
        key="id",
        rows=25,
    )
    _rules(console)
    drawn: list[object] = []

    def refresh() -> None:
        firing = watch.firing
        change(
            {
                "Now": count(len(firing)),
                "Remembered": count(len(watch.history)),
                "Not delivered": count(watch.failed),
            }
        )
        quiet.visible = not firing
        if drawn != [firing]:
            drawn[:] = [firing]
            now.clear()
            with now:
                for each in firing:
                    with ui.row().classes("hr-card items-center"):
                        tag("firing", "bad")
                        ui.link(each.subject, each.link).classes("hr-link")
                        ui.label(each.text).classes("hr-anywhere")
                        ui.label(ago(each.at_ms, now_ms())).classes("hr-sub")
        table.refresh()

    live(refresh)


def _rules(console: Console) -> None:
    settings = console.observatory.settings
    ui.label("Rules").classes("hr-heading")
    if not settings.lag.alerts and not settings.console.alerts:
        empty(
            "rule",
            "There are no rules yet",
            "Write [[lag.alerts]] about groups, and [[console.alerts]] about flows and captures:",
            '[[console.alerts]] name = "*" down = true webhook = "https://..."',
        )
        return
    with ui.column().classes("hr-card gap-1"):
        for rule in settings.lag.alerts:
            ui.label(_lag_rule(rule)).classes("hr-sub")
        for alert in settings.console.alerts:
            ui.label(_run_rule(alert)).classes("hr-sub")


def _lag_rule(rule: AlertRule) -> str:
    limits = []
    if rule.max_records is not None:
        limits.append(f"{count(rule.max_records)} records")
    if rule.max_time_ms is not None:
        limits.append(duration(rule.max_time_ms))
    return (
        f"group {rule.group} in {rule.topic}: more than {' or '.join(limits)} behind"
        f"{_receivers(rule)}"
    )


def _run_rule(rule: ConsoleAlert) -> str:
    words = {
        "lag": lambda value: f"more than {count(value)} records to read",
        "behind_ms": lambda value: f"more than {duration(value)} behind its database",
        "dropped": lambda value: f"more than {count(value)} records left out",
        "restarts": lambda value: f"started again more than {count(value)} times",
        "retained": lambda value: f"more than {size(value)} of log retained",
    }
    given = {measure: getattr(rule, name) for measure, name in LIMITS.items()}
    limits = [words[each](value) for each, value in given.items() if value is not None]
    limits += ["it does not run"] if rule.down else []
    return f"{rule.name}: {' or '.join(limits)}{_receivers(rule)}"


def _receivers(rule: AlertRule | ConsoleAlert) -> str:
    """Where alarms go, without an address that may hold a token."""
    found = [
        word
        for word, given in (
            ("a webhook", rule.webhook),
            ("a command", rule.command),
            ("mail", rule.mail),
        )
        if given
    ]
    return f", told to {' and '.join(found)}" if found else ""
