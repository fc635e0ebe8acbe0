// Convert a number of type XT, which may be half precision.
__device__ double number(XT x) {
    if (X_KIND == 0) return x;
    float wide;
    if (X_KIND == 2) wide = __uint_as_float((unsigned)x << 16);
    else asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"((unsigned short)x));
    return wide;
}
