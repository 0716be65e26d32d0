"""Gets the secret key of all hashes of records: from the settings, or made once and kept with the tables.

The key must stay the same for as long as the tables exist.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path

from parallax.config import ConfigError, ReadSettings
from parallax.stores import rust_path
from parallax.views.tables import VIEWS, rust_uri

_NAMED = "hashed by key "
_KEY = re.compile("[0-9a-fA-F]{32}")


def hash_key(storage: str, read: ReadSettings) -> str:
    """The secret key with which keys and contents of records are hashed.

    It is taken from the settings or from the file that they name. If they name none, it is made once and kept with the
    tables. Hashes made with two keys cannot be compared: every record would look like another one. So a key is refused
    if the tables were written with another.

    Args:
        storage: ``storage.path``. If the settings name no key, it is in the file ``hash_key`` there.
        read: ``read.hash_key`` and ``read.hash_key_file``.

    Returns:
        32 hexadecimal digits.

    Raises:
        ConfigError: the file does not hold a key, or cannot be read or made. Or the tables were written with another
            key.
    """
    option = "read.hash_key"
    if read.hash_key is not None:
        key = read.hash_key.get_secret_value()
    elif read.hash_key_file is not None:
        option, key = "read.hash_key_file", _checked(Path(read.hash_key_file), "read.hash_key_file")
    else:
        option, key = "storage.path", _kept(Path(rust_path(storage)) / "hash_key")
    if _is_of_another(storage, key):
        raise ConfigError(
            f"{option}: this is not the key that the tables below {storage} were written with; give that one, or an "
            "empty storage.path"
        )
    return key


def name_of(key: str) -> str:
    """A short text that identifies a secret key without revealing it.

    Each view has this text of its key as its description.

    Args:
        key: 32 hexadecimal digits.
    """
    return _NAMED + hashlib.blake2b(b"parallax", key=bytes.fromhex(key), digest_size=8).hexdigest()


def _is_of_another(storage: str, key: str) -> bool:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        said = DeltaTable(rust_uri(storage, VIEWS[0])).metadata().description or ""
    except (DeltaError, OSError):
        return False  # there is none yet, or its next reader says why it cannot be read
    return said.startswith(_NAMED) and said != name_of(key)


def _kept(path: Path) -> str:
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="ascii") as file:
                path.chmod(0o600)
                file.write(secrets.token_hex(16))
        except FileExistsError:
            pass  # another process was first
        except OSError as error:
            path.unlink(missing_ok=True)  # half a key would be refused at each start
            problem = f"{path} cannot be written ({error.strerror})"
            raise ConfigError(f"storage.path: {problem}; give a folder that can be written") from error
    return _checked(path, "storage.path")


def _checked(path: Path, option: str) -> str:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file has such a name"
        shown = "the key itself" if _KEY.fullmatch(path.name) else path
        problem = f"{shown} cannot be read ({reason}); give the path of the file that holds the key of all hashes"
        raise ConfigError(f"{option}: {problem}") from None
    if not _KEY.fullmatch(text):
        problem = f"{path} must hold 32 hexadecimal digits, the key of all hashes"
        raise ConfigError(f"{option}: {problem}; restore it, or delete it with all tables")
    return text
