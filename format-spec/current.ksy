meta:
  id: current
  title: Firn CURRENT, the name of the manifest that counts
  license: MIT OR Apache-2.0
  ks-version: "0.11"
  encoding: UTF-8
doc: |
  Three lines of text. See "Manifest" in README.md. The first and the last line have the same form in every version.
seq:
  - id: intro
    contents: "firn format "
  - id: version
    type: str
    terminator: 0x0a
    valid: '"1"'
  - id: manifest
    type: str
    terminator: 0x0a
  - id: crc
    contents: "crc "
  - id: checksum
    type: str
    size: 8
    doc: CRC-32 of the first two lines with their line ends, in lower-case hexadecimal digits.
  - id: newline
    contents: [0x0a]
  - id: no_rest
    size-eos: true
    valid: "[].as<bytes>"
