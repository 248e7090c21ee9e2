// Flow of control: loops whose trip counts differ between lanes, nested branches, early exits, jump
// tables, calls, recursion.
#include "fixture.cuh"

KERNEL(control_loops, 6, bits, small, bits) {
    unsigned x = a, steps = 0;
    while (x > 1 && steps < 200) {  // Collatz: every lane its own number of rounds
        x = x & 1 ? 3 * x + 1 : x >> 1;
        ++steps;
    }
    PUT(steps, x);
    unsigned sum = 0;
    for (unsigned k = 0; k < (b & 63); ++k) {
        if ((k ^ c) % 5 == 0) continue;
        if (sum > 0xf0000000u) break;
        sum += k * c;
    }
    put(sum);
    unsigned u = a | 1, v = c | 1;
    while (v) {
        const unsigned r = u % v;
        u = v;
        v = r;
    }
    put(u);
    unsigned hits = 0;
    for (unsigned i = 0; i < (a & 7); ++i)
        for (unsigned j = i; j < (c & 15); ++j) {
            if (((i * j) ^ b) & 4) continue;
            for (unsigned k = 0; k < (b & 3); ++k) hits += i + j * k;
        }
    put(hits);
    unsigned w = a;
    do w = w * 1664525u + 1013904223u;
    while (w >> 29);
    put(w);
}

KERNEL(control_nested, 4, bits, bits, bits) {
    unsigned r = 0;
    if (a & 1) {
        r = b * 3;
        if (a & 2) {
            r ^= c;
            if (a & 4) {
                for (unsigned k = 0; k < (b & 7); ++k) r += r >> 3;
            } else {
                r = __brev(r);
            }
        } else if (a & 8) {
            r -= c / (b | 1);
        }
    } else {
        switch (a >> 1 & 3) {
            case 0: r = b + c; break;
            case 1: r = b / (c | 1); [[fallthrough]];
            case 2: r += 7; break;
            default: r = ~c;
        }
    }
    put(r);
    unsigned s = c;
    for (int k = 0; k < 8; ++k) {
        if (a >> k & 1) {
            if (b >> k & 1) {
                s = s * 5 + 1;
                if (s & 0x100) goto out;
            } else {
                s ^= s << 7;
                if ((s & 0xf0) == 0x50) break;
            }
        }
        s += k;
    }
    s ^= 0x80000000u;
out:
    put(s);
    bool found = false;
    unsigned at = 0;
    for (; at < 32; ++at)
        if ((a >> at & 15) == (c & 15)) {
            found = true;
            break;
        }
    PUT(found ? at : 99u, (a & 1 ? b / (c | 1) : a % (c | 1)) + (b & 1 ? a * 2 : c));
}

KERNEL(control_exits, 3, bits, bits, bits) {
    // What a lane that left has not written keeps the value from here.
    put.at[0] = 1, put.at[1] = 2, put.at[2] = 3;
    put.done();
    if (a & 1) return;
    put.at[0] = b;
    for (unsigned k = 0; k < 20; ++k) {
        if ((a >> k & 7) == 7) return;
        put.at[1] = k;
        if ((c >> k & 31) == 5) {
            put.at[2] = k + 100;
            if (b & 1) return;
        }
    }
    put.at[2] = a + c;
}

KERNEL(control_table, 3, bits, bits, bits) {
    unsigned r = 0;
    switch (a & 15) {
        case 0: r = b + c; break;
        case 1: r = b * c; break;
        case 2: r = b ^ (c << 3); break;
        case 3: r = __popc(b) + c; break;
        case 4: r = b - c * 7; break;
        case 5: r = __brev(b) ^ c; break;
        case 6: r = min(b, c) + 9; break;
        case 7: r = b >> (c & 31); break;
        case 8: r = b / (c | 1); break;
        case 9: r = __umulhi(b, c); break;
        case 10: r = __byte_perm(b, c, 0x1357); break;
        case 11: r = __float_as_uint(__uint_as_float(b) + 1.0f); break;
        case 12: for (unsigned k = 0; k < (c & 7); ++k) r += b ^ k; break;
        case 13: r = 13; break;
    }
    put(r);
    // A state machine: a jump table within a loop.
    unsigned state = a & 7, word = b, count = 0;
    for (int k = 0; k < 24; ++k) {
        switch (state) {
            case 0: state = word & 1 ? 3 : 1; word = word * 3 + 1; break;
            case 1: state = 2; word ^= c; break;
            case 2: state = word & 2 ? 5 : 0; word >>= 1; break;
            case 3: state = 4; word += c; count += 10; break;
            case 4: state = word & 4 ? 6 : 7; word = ~word; break;
            case 5: state = 0; word = __brev(word); break;
            case 6: k = 100; break;
            default: state = 5; word -= 77; ++count;
        }
    }
    PUT(word, count);
}

__device__ __noinline__ unsigned mix(unsigned x, unsigned y) {
    return (x ^ y >> 7) * 0x85ebca6bu + (y << 3);
}

__device__ __noinline__ float poly(float x, const float* c) {
    return fmaf(fmaf(c[0], x, c[1]), x, c[2]);
}

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ unsigned fibonacci(unsigned n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

KERNEL(control_calls, 5, bits, bits, f32near) {
    put(mix(a, b));
    unsigned r = b;
    if (a & 1) r = mix(b, a);  // some lanes only
    put(r);
    const float coefficients[3] = {c, 2.5f, c * c};
    put(poly(1.5f, coefficients));
    for (unsigned k = 0; k < (a & 3); ++k) r = mix(r, k);
    PUT(r, a & 4 ? mix(a, 1) : mix(b, 2));
}

KERNEL(control_recursion, 2, bits, bits, bits) {
    PUT(fibonacci(a % 9), ackermann(b % 3, c % 3));
}

__device__ __noinline__ unsigned multiply(unsigned x, unsigned y) { return x * y + 1; }
__device__ __noinline__ unsigned subtract(unsigned x, unsigned y) { return x - (y >> 2); }
typedef unsigned (*Function)(unsigned, unsigned);
__device__ Function functions[3] = {mix, multiply, subtract};

KERNEL(control_pointers, 2, bits, bits, bits) {
    // Functions chosen at run time: calls to addresses from a table.
    PUT(functions[a % 3](b, c), functions[t.n % 3](a, b));
}

KERNEL(control_local, 8, bits, bits, bits) {
    // An array in local memory, reached by computed indices; words, bytes and pairs.
    unsigned words[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) words[k] = a * (2 * k + 1);
    for (int k = 0; k < 8; ++k) words[(b >> (4 * k)) & 15] += c >> k;
    PUT(words[c & 15], words[b & 15] + words[(b >> 4) & 15]);
    unsigned char bytes[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) bytes[k] = a >> k;
    bytes[b & 15] = c;
    put(bytes[c & 15] | bytes[a & 15] << 8);
    short halves[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) halves[k] = b >> (2 * k);
    halves[a & 7] -= 5;
    put((int)halves[c & 7]);
    unsigned long long pairs[4] = {a, b, c, (unsigned long long)a * b};
    pairs[b & 3] ^= 0x123456789ull;
    put(pairs[a & 3]);
    uint4 fours[4] = {{a, b, c, 1}, {b, c, a, 2}, {c, a, b, 3}, {a ^ b, b ^ c, c ^ a, 4}};
    fours[b >> 30].y += 5;
    const uint4 one = fours[c >> 30];
    PUT(one.x ^ one.y, one.z + one.w);
}
