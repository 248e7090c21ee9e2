// Double precision.
#include "fixture.cuh"

KERNEL(f64_add, 20, f64, f64, f64) {
    put(D2("add.rn.f64", a, b));
    put(D2("add.rz.f64", a, b));
    put(D2("add.rm.f64", a, b));
    put(D2("add.rp.f64", a, b));
    put(a - b);
    put(fabs(a) + -b);
    put(-a - fabs(b));
    put(a + 1.5);
    put(a + 0.1);
    put(-a);
}

KERNEL(f64_multiply, 16, f64, f64, f64) {
    put(D2("mul.rn.f64", a, b));
    put(D2("mul.rz.f64", a, b));
    put(D2("mul.rm.f64", a, b));
    put(D2("mul.rp.f64", a, b));
    put(a * -fabs(b));
    put(a * 3.0);
    put(a * 0.1);
    put(a * a * c);
}

KERNEL(f64_fma, 18, f64, f64, f64) {
    put(D3("fma.rn.f64", a, b, c));
    put(D3("fma.rz.f64", a, b, c));
    put(D3("fma.rm.f64", a, b, c));
    put(D3("fma.rp.f64", a, b, c));
    put(fma(-a, b, c));
    put(fma(a, b, -c));
    put(fma(a, b, -D2("mul.rn.f64", a, b)));
    put(fma(a, 0.1, b));
    put(fma(a, b, 2.5));
}

KERNEL(f64_fma_near, 12, f32near, f32near, f32near) {
    // Cancelling sums with full mantissas.
    const double x = a * 0.1, y = b * 0.3, z = c * 0.7, p = D2("mul.rn.f64", x, y);
    put(D3("fma.rn.f64", x, y, -p));
    put(D3("fma.rz.f64", x, y, z));
    put(D3("fma.rm.f64", x, y, z));
    put(D3("fma.rp.f64", x, y, z));
    put(D3("fma.rn.f64", x, y, z));
    put(D3("fma.rn.f64", x * 1e-160, y * 1e-160, z * 1e-318));
}

#define OPERATORS(TYPE, x, X, Y)                                                                 \
    (SETP("eq." TYPE, x, X, Y) | SETP("ne." TYPE, x, X, Y) << 1 | SETP("lt." TYPE, x, X, Y) << 2 \
     | SETP("le." TYPE, x, X, Y) << 3 | SETP("gt." TYPE, x, X, Y) << 4                           \
     | SETP("ge." TYPE, x, X, Y) << 5 | SETP("equ." TYPE, x, X, Y) << 6                          \
     | SETP("neu." TYPE, x, X, Y) << 7 | SETP("ltu." TYPE, x, X, Y) << 8                         \
     | SETP("leu." TYPE, x, X, Y) << 9 | SETP("gtu." TYPE, x, X, Y) << 10                        \
     | SETP("geu." TYPE, x, X, Y) << 11 | SETP("num." TYPE, x, X, Y) << 12                       \
     | SETP("nan." TYPE, x, X, Y) << 13)

KERNEL(f64_compare, 13, f64, f64, f64) {
    put(OPERATORS("f64", "d", a, b));
    put(OPERATORS("f64", "d", fabs(a), -b));
    put((a < b && b < c) | (a < b || !(b <= c)) << 1 | (int)((a < b) != (c >= b)) << 2
        | (int)(a != a) << 3 | (int)(a == 0.0) << 4 | (int)(fabs(a) < __int_as_float(0x7f800000)) << 5
        | (int)(a > 0.1) << 6);
    put(fmin(a, b));
    put(fmax(a, b));
    put(a < b ? a : c);
    put(copysign(a, b));
    put(fmax(fabs(a), 0.1));
}

KERNEL(f64_round, 10, f64integer, f64, f64) {
    put(D1("cvt.rni.f64.f64", a));
    put(D1("cvt.rzi.f64.f64", a));
    put(D1("cvt.rmi.f64.f64", a));
    put(D1("cvt.rpi.f64.f64", b));
    put(round(a));
}

KERNEL(f64_divide, 20, f64, f64, f64) {
    put(D2("div.rn.f64", a, b));
    put(D2("div.rz.f64", a, b));
    put(D2("div.rm.f64", a, b));
    put(D2("div.rp.f64", a, b));
    put(D1("rcp.rn.f64", a));
    put(D1("sqrt.rn.f64", a));
    put(D1("sqrt.rz.f64", a));
    put(D1("sqrt.rm.f64", a));
    put(a / 3.0);
    put(sqrt(fabs(a)) / b);
}

KERNEL(f64_divide_near, 10, f32near, f32near, f32near) {
    const double x = a * 0.1, y = b * 0.3;
    put(x / y);
    put(1.0 / y);
    put(sqrt(fabs(x)));
    put(D2("div.rp.f64", x, y));
    put(fmod(x, y));
}
