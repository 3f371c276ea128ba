"""Archives that depend on their content alone: sorted, of one time and owner, and gzip without a name or a time."""

import gzip
import io
import tarfile


def pack(files, epoch):
    """A tar archive of (name, mode, bytes)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, mode, content in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, int(epoch)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def compress(content):
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0) as archive:
        archive.write(content)
    return buffer.getvalue()


def read(path):
    """The files of an archive, compressed or not."""
    with tarfile.open(path) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
