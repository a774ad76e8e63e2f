"""Where settings are written: the file, the environment and the command line.

Each source yields what it says as `Written` values, in the vocabulary of the sections, and refuses
names that no section declares.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.settings.errors import SettingsFileError, UnknownSetting
from headrace.settings.kinds import Properties
from headrace.settings.sections import Declaration, Section, declarations

PREFIX = "HEADRACE_"
"""How the name of every environment variable of ours begins."""

FILE_VARIABLE = "HEADRACE_CONFIG"
"""The environment variable that names the settings file, and is not a setting itself."""

Sections = Mapping[str, type[Section]]
"""The sections there are, by name."""


@dataclass(frozen=True, slots=True)
class Written:
    """A value for a setting as somebody wrote it, and where, such as "headrace.toml:3: ..."."""

    section: str
    declaration: Declaration
    value: object
    place: str


def read_file(path: Path, sections: Sections) -> Iterator[Written]:
    """What a TOML file says."""
    import tomllib  # only here: a broker without a file should not pay for it

    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsFileError(f"Cannot read the settings file {path}: {reason}.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsFileError(f"{path} is not valid TOML: {error}.") from None
    for section, written in document.items():
        place = f"{path}{_line_of(text, section)}"
        if section not in sections:
            raise UnknownSetting(f"{place}: {_no_such_section(section, sections)}")
        listed = sections[section].listed if isinstance(written, list) else ""
        table = {listed: written} if listed else written
        if not isinstance(table, dict):
            remedy = f"write [{section}] above its settings"
            raise UnknownSetting(f"{place}: {section} is a section; {remedy}.")
        known = {declared.key: declared for declared in declarations(sections[section])}
        for key, value in table.items():
            line = _line_of(text, f"{section}.{key}") or _line_of(text, section)
            place = f"{path}{line}: [{section}]"
            if key not in known:
                raise UnknownSetting(f"{place} {_no_such_key(section, key, sections)}")
            yield Written(section, known[key], value, f"{place} {key}")


def read_environment(environment: Mapping[str, str], sections: Sections) -> Iterator[Written]:
    """What environment variables say; an empty one counts as not set.

    A table takes one variable per entry, with underscores for the dots of its name:
    HEADRACE_KAFKA_PROPERTIES_SASL_PASSWORD sets sasl.password in [kafka.properties].
    """
    known = {
        f"{PREFIX}{name}_{declared.key}".upper(): (name, declared)
        for name, section in sections.items()
        for declared in declarations(section)
    }
    tables = [each for each in known if isinstance(known[each][1].kind, Properties)]
    valid = [f"{each}_NAME" if each in tables else each for each in (*known, FILE_VARIABLE)]
    for variable, value in environment.items():
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE or not value:
            continue
        table = next((each for each in tables if variable.startswith(f"{each}_")), None)
        if table is not None:
            entry = variable.removeprefix(f"{table}_").lower().replace("_", ".")
            yield Written(*known[table], {entry: value}, variable)
        elif variable in known and variable not in tables:
            yield Written(*known[variable], value, variable)
        else:
            meant = _did_you_mean(variable, valid)
            raise UnknownSetting(f"The environment variable {variable} is not a setting{meant}")


def read_flags(flags: Mapping[str, object], sections: Sections) -> Iterator[Written]:
    """What the command line says, by "section.key"; None is an option that was not given."""
    for name, value in flags.items():
        section, key = name.split(".", 1)
        known = {declared.key: declared for declared in declarations(sections[section])}
        if key not in known:
            raise UnknownSetting(f"[{section}] {_no_such_key(section, key, sections)}")
        if value is not None:
            yield Written(section, known[key], value, f"--{key.replace('_', '-')}")


def _no_such_section(name: str, sections: Sections) -> str:
    homes = [home for home in sections if name in _keys(sections[home])]
    if homes:
        return f'"{name}" stands outside its section; move it under [{homes[0]}].'
    return f"there is no section [{name}]{_did_you_mean(name, sections)}"


def _no_such_key(section: str, key: str, sections: Sections) -> str:
    homes = [home for home in sections if key in _keys(sections[home])]
    if homes:
        return f'has no setting "{key}"; it belongs to [{homes[0]}].'
    return f'has no setting "{key}"{_did_you_mean(key, _keys(sections[section]))}'


def _keys(section: type[Section]) -> list[str]:
    return [declared.key for declared in declarations(section)]


def _did_you_mean(word: str, candidates: Mapping[str, object] | list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, candidates, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(candidates)}."


def _line_of(text: str, path: str) -> str:
    """A colon and the line of a dotted path, or nothing; tomllib itself keeps no positions."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([^\[\]]+?)\s*\]", line):
            found = table = re.sub(r"[\"'\s]", "", header[1])
        elif key := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            found = f"{table}.{key[1]}".strip(".").translate({ord('"'): None, ord("'"): None})
        else:
            continue
        if f"{found}.".startswith(f"{path}."):
            return f":{number}"
    return ""
