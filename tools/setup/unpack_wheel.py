"""Unpacks parts of wheels: unpack_wheel.py DESTINATION PREFIX[,PREFIX...] WHEEL...

A member is written when its path starts with one of the prefixes. Only the standard library is used.
"""
import os
import sys
import zipfile


def unpack(wheel, destination, prefixes):
    count = 0
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not member.is_dir() and member.filename.startswith(prefixes):
                archive.extract(member, destination)  # refuses paths that lead out of destination
                count += 1
    return count


def main():
    destination, prefixes, wheels = sys.argv[1], tuple(sys.argv[2].split(",")), sys.argv[3:]
    for wheel in wheels:
        count = unpack(wheel, destination, prefixes)
        if count == 0:
            sys.exit(f"{wheel}: no member starts with {' or '.join(prefixes)}")
        print(f"{os.path.basename(wheel)}: {count} files")


if __name__ == "__main__":
    main()
