"""The zipf and uniform generators once more, plainly; prints the checksums that
tests/generators.rs pins. Needs nothing but Python."""

import math, struct

M = (1 << 64) - 1


class R:
    def __init__(s, seed):
        s.s = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & M
            z = seed
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
            s.s.append(z ^ (z >> 31))

    def next(s):
        rot = lambda x, k: ((x << k) | (x >> (64 - k))) & M
        a, b, c, d = s.s
        r = (rot((a + d) & M, 23) + a) & M
        t = (b << 17) & M
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= t
        d = rot(d, 45)
        s.s = [a, b, c, d]
        return r

    def below(s, n):
        while True:
            p = s.next() * n
            if (p & M) >= ((1 << 64) % n):
                return p >> 64

    def shuffle(s, l):
        for i in range(len(l) - 1, 0, -1):
            j = s.below(i + 1)
            l[i], l[j] = l[j], l[i]


HI = struct.unpack("<d", struct.pack("<Q", 0x3FE62E42FEE00000))[0]
LO = struct.unpack("<d", struct.pack("<Q", 0x3DEA39EF35793C76))[0]


def ln(x):
    m, e = math.frexp(float(x))
    m *= 2
    e -= 1
    if m > math.sqrt(2):
        m /= 2
        e += 1
    r = (m - 1) / (m + 1)
    q = r * r
    s = 0.0
    for k in range(11, -1, -1):
        s = s * q + 1.0 / (2 * k + 1)
    return e * HI + (e * LO + 2.0 * r * s)


def ex(x):
    t = int(x * 1.4426950408889634 - 0.5)
    w = float(t)
    r = x - w * HI - w * LO
    s = 1.0
    for k in range(16, 0, -1):
        s = 1.0 + r * s / k
    return s * math.ldexp(1.0, t)


def pw(i, a):
    if a == 0 or i <= 1:
        return 1.0
    if a == 1:
        return 1.0 / i
    return ex(-a * ln(i))


C = 1 << 32


def table(items, a):
    n = len(items)
    w = [pw(i + 1, a) for i in range(n)]
    s = l = 0.0
    for x in reversed(w):
        y = x - l
        t = s + y
        l = (t - s) - y
        s = t
    sc = n * float(C) / s
    sh = []
    c = 0.0
    for x in w:
        e = x * sc + c
        k = int(e)
        c = e - k
        sh.append(k)
    sh[0] += n * C - sum(sh)
    cols = [[C - 1, p, p] for p in items]
    L = lambda f: next((j for j in range(f, n) if sh[j] >= C), None)
    lg = L(0)
    for i in range(n):
        sm = i
        while sh[sm] < C and lg is not None:
            cols[sm][0] = sh[sm]
            cols[sm][2] = items[lg]
            sh[lg] -= C - sh[sm]
            if sh[lg] >= C:
                break
            f = lg
            lg = L(f + 1)
            if f > i:
                break
            sm = f
    return cols


def fnv(refs):
    h = 0xCBF29CE484222325
    for p, w in refs:
        for b in p.to_bytes(8, "little") + bytes([w]):
            h = ((h ^ b) * 0x100000001B3) & M
    return "0x%016X" % h


def zipf(pages, refs, ra, wa, num, den, shared, seed):
    r = R(seed)
    k = list(range(pages))
    r.shuffle(k)
    t = [table(k, ra)]
    if not shared:
        k = list(range(pages))
        r.shuffle(k)
    t.append(table(k, wa))
    for _ in range(refs):
        w = r.below(den) < num
        c = r.below(pages)
        b = r.next() >> 32
        th, o, al = t[w][c]
        yield (o if b < th else al), w


def uni(pages, refs, num, den, seed):
    r = R(seed)
    for _ in range(refs):
        w = r.below(den) < num
        yield r.below(pages), w


print(fnv(zipf(10000, 1000000, 1.0, 1.0, 3, 10, False, 1)))
print(fnv(zipf(50000, 500000, 0.4, 1.2, 3, 10, False, 1)))
print(fnv(zipf(1000, 100000, 0.99, 0.99, 3, 10, True, 42)))
print(fnv(zipf(1000, 100000, 0, 2.5, 3, 10, True, 1)))
print(fnv(uni(10000, 1000000, 3, 10, 1)))
print(fnv(uni(M, 1000, 5, 1000, 7)))
