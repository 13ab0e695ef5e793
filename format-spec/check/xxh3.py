"""XXH3-64 with seed 0, in plain Python: the hash that filters store (README.md, "Key hash")."""

M64 = (1 << 64) - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def _u32(b, at):
    return int.from_bytes(b[at : at + 4], "little")


def _u64(b, at):
    return int.from_bytes(b[at : at + 8], "little")


def _fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def _avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & M64
    return h ^ h >> 32


def _avalanche64(h):
    h = (h ^ h >> 33) * P64_2 & M64
    h = (h ^ h >> 29) * P64_3 & M64
    return h ^ h >> 32


def _mix16(b, at, secret_at):
    return _fold(_u64(b, at) ^ _u64(SECRET, secret_at), _u64(b, at + 8) ^ _u64(SECRET, secret_at + 8))


def _short(b):
    n = len(b)
    if n > 8:
        low = _u64(b, 0) ^ _u64(SECRET, 24) ^ _u64(SECRET, 32)
        high = _u64(b, n - 8) ^ _u64(SECRET, 40) ^ _u64(SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((n + swapped + high + _fold(low, high)) & M64)
    if n >= 4:
        h = (_u32(b, n - 4) + (_u32(b, 0) << 32)) ^ _u64(SECRET, 8) ^ _u64(SECRET, 16)
        h ^= (h << 49 | h >> 15) & M64 ^ (h << 24 | h >> 40) & M64
        h = h * 0x9FB21C651E98DF25 & M64
        h ^= (h >> 35) + n
        h = h * 0x9FB21C651E98DF25 & M64
        return h ^ h >> 28
    if n:
        combined = b[0] << 16 | b[n >> 1] << 24 | b[n - 1] | n << 8
        return _avalanche64(combined ^ _u32(SECRET, 0) ^ _u32(SECRET, 4))
    return _avalanche64(_u64(SECRET, 56) ^ _u64(SECRET, 64))


def _accumulate(acc, b, at, secret_at):
    for i in range(8):
        value = _u64(b, at + 8 * i)
        key = value ^ _u64(SECRET, secret_at + 8 * i)
        acc[i ^ 1] = (acc[i ^ 1] + value) & M64
        acc[i] = (acc[i] + (key & 0xFFFFFFFF) * (key >> 32)) & M64


def _long(b):
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]
    n, stripes = len(b), (len(SECRET) - 64) // 8
    blocks = (n - 1) // (64 * stripes)
    for block in range(blocks):
        for i in range(stripes):
            _accumulate(acc, b, 64 * (stripes * block + i), 8 * i)
        for i in range(8):
            acc[i] = (acc[i] ^ acc[i] >> 47 ^ _u64(SECRET, len(SECRET) - 64 + 8 * i)) * P32_1 & M64
    start = blocks * 64 * stripes
    for i in range((n - 1 - start) // 64):
        _accumulate(acc, b, start + 64 * i, 8 * i)
    _accumulate(acc, b, n - 64, len(SECRET) - 64 - 7)
    h = n * P64_1
    for i in range(4):
        h += _fold(acc[2 * i] ^ _u64(SECRET, 11 + 16 * i), acc[2 * i + 1] ^ _u64(SECRET, 19 + 16 * i))
    return _avalanche(h & M64)


def xxh3_64(b):
    """The hash of bytes."""
    n = len(b)
    if n <= 16:
        return _short(b)
    h = n * P64_1
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            h += _mix16(b, 16 * i, 32 * i) + _mix16(b, n - 16 * (i + 1), 32 * i + 16)
        return _avalanche(h & M64)
    if n <= 240:
        h = _avalanche((h + sum(_mix16(b, 16 * i, 16 * i) for i in range(8))) & M64)
        h += sum(_mix16(b, 16 * i, 16 * (i - 8) + 3) for i in range(8, n // 16))
        return _avalanche((h + _mix16(b, n - 16, 136 - 17)) & M64)
    return _long(b)
