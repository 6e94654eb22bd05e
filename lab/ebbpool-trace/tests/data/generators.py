"""A plain second implementation of the generators; prints the checksums that
tests/traces/generators.rs pins. Needs only Python."""

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
    return weighted(items, [pw(i + 1, a) for i in range(len(items))])


def weighted(items, w):
    n = len(items)
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


def atanh(x):
    q = x * x
    s = 0.0
    for k in range(16, -1, -1):
        s = s * q + 1.0 / (2 * k + 1)
    return x * s


def step(k, n, th):
    up = ex(th * (ln(k) - ln(n)))
    if k <= 1:
        return up
    f = th * 2.0 * atanh(1.0 / (2.0 * k - 1.0))
    s = 1.0
    for t in range(20, 1, -1):
        s = 1.0 - f * s / t
    return up * (f * s)


def selfsim(pages, refs, a, b, num, den, shuffled, seed):
    r = R(seed)
    k = list(range(pages))
    if shuffled:
        r.shuffle(k)
    th = (ln(a[0]) - ln(a[1])) / (ln(b[0]) - ln(b[1]))
    t = weighted(k, [step(i + 1, pages, th) for i in range(pages)])
    for _ in range(refs):
        w = r.below(den) < num
        c = r.below(pages)
        x = r.next() >> 32
        h, o, al = t[c]
        yield (o if x < h else al), w


def scanmix(zipf, pages, refs, scans, length, area, num, den, seed):
    r = R(seed ^ 0x5CA95CA95CA95CA9)
    at = [(2 * k + 1) * refs // (2 * scans) for k in range(scans)]
    for i in range(refs + 1):
        while at and at[0] == i:
            at.pop(0)
            o = r.below(area)
            for j in range(length):
                w = r.below(den) < num
                yield pages + (o + j) % area, w
        if i < refs:
            yield next(zipf)


def dynamics(base, epoch, share, seed):
    r = R(seed)
    base = list(base)
    w0 = None
    for i in range(0, len(base), epoch):
        e = base[i : i + epoch]
        own = sum(w for _, w in e)
        w0 = w0 or (own, len(e))
        n, d = share(w0, i // epoch)
        want = min(len(e), (2 * len(e) * n + d) // (2 * d))
        c = own if want < own else len(e) - own
        ch = abs(want - own)
        for p, w in e:
            if ch and w == (want < own):
                if r.below(c) < ch:
                    w = not w
                    ch -= 1
                c -= 1
            yield p, w


def uni(pages, refs, num, den, seed):
    r = R(seed)
    for _ in range(refs):
        w = r.below(den) < num
        yield r.below(pages), w


def cfdc(records, counts, length, a, b, scattered, seed):
    r = R(seed)
    k = list(range(records))
    if scattered:
        r.shuffle(k)
    th = (ln(a[0]) - ln(a[1])) / (ln(b[0]) - ln(b[1]))
    t = weighted(k, [step(i + 1, records, th) for i in range(records)])
    left = list(counts)
    while sum(left):
        d = r.below(sum(left))
        kind = next(i for i in range(4) if d < sum(left[: i + 1]))
        left[kind] -= 1
        if kind < 2:
            h, o, al = t[r.below(records)]
            yield kind, (o if r.next() >> 32 < h else al), 1
        else:
            f = r.below(records)
            yield kind, f, min(length, records - f)


def ycsb(mix, records, operations, seed):
    r = R(seed)
    k = list(range(records))
    if mix != "d":
        r.shuffle(k)
    t = table(k, 0.99)

    def draw():
        h, o, al = t[r.below(records)]
        x = o if r.next() >> 32 < h else al
        return new - 1 - x if mix == "d" else x

    new = records
    for _ in range(operations):
        if r.below(100) < {"a": 50, "d": 95, "e": 95, "f": 50}[mix]:
            x = draw()
            yield (2, x, 1 + r.below(100)) if mix == "e" else (0, x, 1)
        elif mix in "de":
            new += 1
            yield 5, new - 1, 1
        else:
            yield (4 if mix == "f" else 1), draw(), 1


def operations(ops):
    h = 0xCBF29CE484222325
    for k, x, n in ops:
        for b in bytes([k]) + x.to_bytes(8, "little") + n.to_bytes(8, "little"):
            h = ((h ^ b) * 0x100000001B3) & M
    return "0x%016X" % h


class Node:
    def __init__(s, page):
        s.page, s.used, s.under, s.parent = page, 0, [], None


def tree(records, key, value, page_size, fill):
    room = int((page_size - 48) * fill)
    last = [2]

    def take():
        last[0] += 1
        if last[0] % ((page_size - 48) * 8) == 1:
            last[0] += 1
        return last[0]

    levels = [[Node(take())]]

    def push(child, level):
        if level == len(levels):
            levels.append([Node(take())])
        n = levels[level][-1]
        if len(n.under) >= 2 and n.used + 12 + key > room:
            levels[level].append(Node(take()))
            n, full = levels[level][-1], n
        else:
            full = None
        n.used += 12 + key * bool(n.under)
        n.under.append(child)
        child.parent = n
        if full:
            push(full, level + 1)

    for i in range(records):
        n = levels[0][-1]
        if n.under and n.used + 8 + key + value > room:
            levels[0].append(Node(take()))
            push(n, 1)
            n = levels[0][-1]
        n.used += 8 + key + value
        n.under.append(i)
    i = 0
    while i + 1 < len(levels):
        push(levels[i][-1], i + 1)
        i += 1
    levels[-1][0].page = 2
    return [n for n in levels[0] for _ in n.under]


def btree(leaf_of, ops):
    def above(n):
        way = []
        while n.parent:
            n = n.parent
            way.append(n.page)
        return reversed(way)

    for kind, first, n in ops:
        write = kind in (1, 3)
        seen = None
        for i in range(first, first + n):
            leaf = leaf_of[i]
            if leaf is seen:
                continue
            if seen is None or write:
                for page in above(leaf):
                    yield page, False
                if write and leaf.page == 2:
                    yield 2, False
            yield leaf.page, write
            seen = leaf


print(fnv(zipf(10000, 1000000, 1.0, 1.0, 3, 10, False, 1)))
print(fnv(zipf(50000, 500000, 0.4, 1.2, 3, 10, False, 1)))
print(fnv(zipf(1000, 100000, 0.99, 0.99, 3, 10, True, 42)))
print(fnv(zipf(1000, 100000, 0, 2.5, 3, 10, True, 1)))
print(fnv(uni(10000, 1000000, 3, 10, 1)))
print(fnv(uni(M, 1000, 5, 1000, 7)))
print(fnv(selfsim(10000, 1000000, (8, 10), (2, 10), 3, 10, False, 1)))
print(fnv(selfsim(777, 100000, (95, 100), (5, 1000), 1, 2, True, 5)))
z = lambda: zipf(40000, 100000, 1.0, 1.0, 3, 10, False, 1)
print(fnv(scanmix(z(), 40000, 100000, 50, 1000, 10000, 0, 1, 1)))
print(fnv(scanmix(z(), 40000, 100000, 7, 333, 100, 1, 4, 1)))
u = lambda: uni(10000, 100000, 3, 10, 1)
print(fnv(dynamics(u(), 5000, lambda w, i: (w[0] * (100 + i), w[1] * 100), 1)))
wm2 = lambda w, i: (95, 100) if i % 2 else w
print(fnv(dynamics(u(), 999, wm2, 3)))

half = ((8, 10), (2, 10))
small = (60000, 40000, 3000, 2000)
print(operations(cfdc(10000, small, 256, *half, False, 1)))
print(operations(cfdc(10000, small, 256, (9, 10), (5, 100), True, 7)))
for mix in "adef":
    print(operations(ycsb(mix, 1000, 20000, 1)))
paper = (100000, 100000, 200, 200)
t = tree(1000000, 4, 256, 4096, 0.5)
print(fnv(btree(t, cfdc(1000000, paper, 256, *half, False, 1))))
t = tree(30000, 3, 20, 512, 0.8)
fifth = (8000, 2000, 160, 40)
print(fnv(btree(t, cfdc(30000, fifth, 100, (9, 10), (1, 10), True, 5))))
t = tree(3, 4, 100, 1024, 1)
print(fnv(btree(t, cfdc(3, (50, 50, 10, 10), 2, *half, False, 1))))
