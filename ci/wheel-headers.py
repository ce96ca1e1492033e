#!/usr/bin/env python3
"""Extracts the headers from Python wheels on PyPI without downloading the wheels, which have hundreds of megabytes.

Usage: wheel-headers.py FOLDER NAME==VERSION...   a version may end in .* to take the last one with that prefix
"""
import html
import io
import re
import sys
import time
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import unquote, urljoin

BLOCK = 1 << 19


def fetch(url, headers):
    """The answer to a request, tried three times."""
    for attempt in range(3):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except OSError as error:
            if attempt == 2:
                sys.exit(f"{url}: {error}")
            time.sleep(1 + attempt)


class Remote(io.RawIOBase):
    """A file on a server, read in blocks as needed."""

    def __init__(self, url):
        self.url, self.position, self.blocks = url, 0, {}
        status, headers, _ = fetch(url, {"Range": "bytes=0-0"})
        if status != 206:
            sys.exit(f"{url}: the server gives no parts of a file")
        self.size = int(headers["Content-Range"].rsplit("/", 1)[1])

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.position

    def seek(self, offset, whence=io.SEEK_SET):
        self.position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        return self.position

    def block(self, index):
        if index not in self.blocks:
            last = min((index + 1) * BLOCK, self.size) - 1
            self.blocks[index] = fetch(self.url, {"Range": f"bytes={index * BLOCK}-{last}"})[2]
        return self.blocks[index]

    def read(self, count=-1):
        end = self.size if count < 0 else min(self.position + count, self.size)
        parts = []
        while self.position < end:
            start = self.position % BLOCK
            parts.append(self.block(self.position // BLOCK)[start : start + end - self.position])
            self.position += len(parts[-1])
        return b"".join(parts)


def numbers(version):
    return [int(part) for part in re.findall(r"\d+", version)]


def wheel(requirement):
    """The address of the last matching wheel for Linux on x86-64."""
    name, _, version = requirement.partition("==")
    index = f"https://pypi.org/simple/{name}/"
    text = fetch(index, {"Accept": "text/html"})[2].decode()
    fits = re.compile(re.escape(version).replace(r"\*", r"[0-9.]*") + "$")
    found = []
    for link in re.findall(r'href="([^"#]+)', text):
        file = unquote(html.unescape(link)).rsplit("/", 1)[-1]
        parts = file.split("-")
        if file.endswith("x86_64.whl") and "linux" in file and fits.match(parts[1]):
            found.append((numbers(parts[1]), urljoin(index, html.unescape(link))))
    if not found:
        sys.exit(f"{requirement}: no such wheel at {index}")
    return max(found)[1]


def main():
    folder = Path(sys.argv[1])
    for requirement in sys.argv[2:]:
        address = wheel(requirement)
        archive, count = zipfile.ZipFile(Remote(address)), 0
        for member in archive.infolist():
            _, there, inner = member.filename.partition("/include/")
            # Files of the C++ library, which has thousands; other headers include only `nv/`.
            inner = inner.removeprefix("cccl/")
            wanted = inner.startswith("nv/") if "-cccl" in requirement else inner.endswith((".h", ".hpp"))
            if there and wanted and not member.is_dir():
                target = folder / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(member))
                count += 1
        print(f"{address.rsplit('/', 1)[-1]}: {count} headers")


main()
