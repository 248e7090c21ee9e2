// Double precision.
#include "fixture.cuh"

KERNEL(f64_add, 20, f64, f64, f64) {
    PUTS(D2, (a, b), "add.rn.f64", "add.rz.f64", "add.rm.f64", "add.rp.f64");
    PUT(a - b, fabs(a) + -b, -a - fabs(b), a + 1.5, a + 0.1, -a);
}

KERNEL(f64_multiply, 16, f64, f64, f64) {
    PUTS(D2, (a, b), "mul.rn.f64", "mul.rz.f64", "mul.rm.f64", "mul.rp.f64");
    PUT(a * -fabs(b), a * 3.0, a * 0.1, a * a * c);
}

KERNEL(f64_fma, 18, f64, f64, f64) {
    PUTS(D3, (a, b, c), "fma.rn.f64", "fma.rz.f64", "fma.rm.f64", "fma.rp.f64");
    PUT(fma(-a, b, c), fma(a, b, -c), fma(a, b, -D2("mul.rn.f64", a, b)), fma(a, 0.1, b),
        fma(a, b, 2.5));
}

KERNEL(f64_fma_near, 12, f32near, f32near, f32near) {
    // Cancelling sums with full mantissas.
    const double x = a * 0.1, y = b * 0.3, z = c * 0.7, p = D2("mul.rn.f64", x, y);
    put(D3("fma.rn.f64", x, y, -p));
    PUTS(D3, (x, y, z), "fma.rz.f64", "fma.rm.f64", "fma.rp.f64", "fma.rn.f64");
    put(D3("fma.rn.f64", x * 1e-160, y * 1e-160, z * 1e-318));
}

KERNEL(f64_compare, 13, f64, f64, f64) {
    PUT(OPERATORS("f64", "d", a, b), OPERATORS("f64", "d", fabs(a), -b));
    put((a < b && b < c) | (a < b || !(b <= c)) << 1 | (int)((a < b) != (c >= b)) << 2
        | (int)(a != a) << 3 | (int)(a == 0.0) << 4 | (int)(fabs(a) < __int_as_float(0x7f800000)) << 5
        | (int)(a > 0.1) << 6);
    PUT(fmin(a, b), fmax(a, b), a < b ? a : c, copysign(a, b), fmax(fabs(a), 0.1));
}

KERNEL(f64_round, 10, f64integer, f64, f64) {
    PUTS(D1, (a), "cvt.rni.f64.f64", "cvt.rzi.f64.f64", "cvt.rmi.f64.f64");
    PUT(D1("cvt.rpi.f64.f64", b), round(a));
}

KERNEL(f64_divide, 20, f64, f64, f64) {
    PUTS(D2, (a, b), "div.rn.f64", "div.rz.f64", "div.rm.f64", "div.rp.f64");
    PUTS(D1, (a), "rcp.rn.f64", "sqrt.rn.f64", "sqrt.rz.f64", "sqrt.rm.f64");
    PUT(a / 3.0, sqrt(fabs(a)) / b);
}

KERNEL(f64_divide_near, 10, f32near, f32near, f32near) {
    const double x = a * 0.1, y = b * 0.3;
    PUT(x / y, 1.0 / y, sqrt(fabs(x)), D2("div.rp.f64", x, y), fmod(x, y));
}
