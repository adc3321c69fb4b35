"""Validation of the URLs that requests go to."""

from yarl import URL


def url_problem(url: str) -> str | None:
    """Return why the text is no valid HTTP URL; None for a valid URL."""
    try:
        parsed = URL(url)
        host, port = parsed.raw_host or "", parsed.port
        host.encode("idna")
    except UnicodeError:
        return f"{url!r} is not a URL: a part of its host name is empty or too long"
    except ValueError as error:
        return f"{url!r} is not a URL: {error}"
    if parsed.scheme not in {"http", "https"} or not host or " " in host or not port:
        return f"{url!r} is not a URL such as http://cart.shop/"
    return None
