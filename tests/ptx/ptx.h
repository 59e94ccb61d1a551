// What the translated instructions of PTX mean on a CPU. `NAME_<type, further types, FTZ>(operands)` is the instruction
// NAME of that type; `put` writes into a register of any type, and operands are registers, addresses or bits.
#pragma once
#include "kernel.h"
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

using s8 = int8_t; using s16 = int16_t; using s32 = int32_t; using s64 = int64_t;
using u8 = uint8_t; using u16 = uint16_t; using u32 = uint32_t; using u64 = uint64_t;
using b8 = u8; using b16 = u16; using b32 = u32; using b64 = u64;
using f32 = float; using f64 = double; using pred = bool;
#define TEMPLATE template <typename T, bool ftz = false, typename A = u64, typename B = u64, typename C = u64>
#define WHOLE(type) std::is_integral_v<type>

static long &executed = *pretended_number("instructions");
static long &noise = *pretended_number("noise");  // seed of the errors of approximations; 0 for none

// ------------------------------------------------------------------------------------- registers, operands and memory

template <typename To, typename From> static To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
template <typename T, typename A> static T as(A a) {  // an operand as the type of an instruction
    if constexpr (std::is_pointer_v<A>) return as<T>((u64)a);
    else if constexpr (WHOLE(T) == WHOLE(A)) {
        static_assert(WHOLE(T) || sizeof(T) == sizeof(A));
        return (T)a;
    } else return bits<T>(a);
}
template <typename D, typename T> static void put(D &register_, T value) { register_ = as<D>(value); }
template <bool ftz, typename T> static T flushed(T x) {
    if constexpr (ftz && !WHOLE(T))
        if (std::fpclassify(x) == FP_SUBNORMAL) return std::copysign((T)0, x);
    return x;
}
template <typename T, bool ftz, typename A> static T in(A a) { return flushed<ftz>(as<T>(a)); }

// The address of so many values, which a card needs to be a multiple of their size.
template <typename T, int count = 1, typename A> static char *at(A base, s64 offset) {
    u64 address = as<u64>(base) + (u64)offset;
    if (address % (sizeof(T) * count)) fprintf(stderr, "pretended device: a misaligned address\n"), abort();
    return (char *)address;
}
template <typename T> static T load(const char *address) { T value; memcpy(&value, address, sizeof value); return value; }
template <typename T, typename A> static void store(char *address, A a) {
    T value = as<T>(a);
    memcpy(address, &value, sizeof value);
}
template <typename T, typename Change> static T atomically(char *address, Change change) {
    T before = load<T>(address);
    store<T>(address, change(before));
    return before;
}

// -------------------------------------------------------------------------------------------------- sums and products

template <typename T> using Sum = typename std::conditional_t<WHOLE(T), std::make_unsigned<T>, std::enable_if<true, T>>::type;
template <typename T> struct Twice;
template <> struct Twice<s16> { using type = s32; };
template <> struct Twice<u16> { using type = u32; };
template <> struct Twice<s32> { using type = s64; };
template <> struct Twice<u32> { using type = u64; };
template <> struct Twice<s64> { using type = __int128; };
template <> struct Twice<u64> { using type = unsigned __int128; };
template <typename T> using Wide = typename Twice<T>::type;

#define SUM(name, expression)                                                                                          \
    TEMPLATE static T name(A given_a, B given_b) {                                                                     \
        Sum<T> a = in<T, ftz>(given_a), b = in<T, ftz>(given_b);                                                       \
        return flushed<ftz>((T)(expression));                                                                          \
    }
SUM(add_, a + b)
SUM(sub_, a - b)
TEMPLATE static T mul_(A a, B b) { return flushed<ftz>(in<T, ftz>(a) * in<T, ftz>(b)); }
TEMPLATE static T fma_(A a, B b, C c) { return flushed<ftz>(std::fma(in<T, ftz>(a), in<T, ftz>(b), in<T, ftz>(c))); }
TEMPLATE static Wide<T> mul_wide_(A a, B b) { return (Wide<T>)as<T>(a) * (Wide<T>)as<T>(b); }
TEMPLATE static T mul_lo_(A a, B b) { return (T)mul_wide_<T>(a, b); }
TEMPLATE static T mul_hi_(A a, B b) { return (T)(mul_wide_<T>(a, b) >> (8 * sizeof(T))); }
TEMPLATE static T mad_lo_(A a, B b, C c) { return add_<T>(mul_lo_<T>(a, b), c); }
TEMPLATE static T mad_hi_(A a, B b, C c) { return add_<T>(mul_hi_<T>(a, b), c); }
TEMPLATE static Wide<T> mad_wide_(A a, B b, C c) { return add_<Wide<T>>(mul_wide_<T>(a, b), c); }

// With the carry of the sum before, where the name has a c, and for that of the next one (.cc).
template <typename T, bool with, bool keep, typename A, typename B> static T carried(bool &carry, A a, B b, bool minus) {
    T x = as<T>(a), y = as<T>(b);
    unsigned __int128 sum = minus ? (unsigned __int128)x - y - (with && carry) : (unsigned __int128)x + y + (with && carry);
    if (keep) carry = sum >> (8 * sizeof(T)) & 1;
    return (T)sum;
}
#define CARRIED(suffix, with, keep, letter)                                                                            \
    TEMPLATE static T add##letter##suffix(bool &carry, A a, B b) { return carried<T, with, keep>(carry, a, b, false); }  \
    TEMPLATE static T sub##letter##suffix(bool &carry, A a, B b) { return carried<T, with, keep>(carry, a, b, true); }   \
    TEMPLATE static T mad##letter##_lo##suffix(bool &carry, A a, B b, C c) {                                           \
        return carried<T, with, keep>(carry, mul_lo_<T>(a, b), c, false);                                              \
    }                                                                                                                  \
    TEMPLATE static T mad##letter##_hi##suffix(bool &carry, A a, B b, C c) {                                           \
        return carried<T, with, keep>(carry, mul_hi_<T>(a, b), c, false);                                              \
    }
CARRIED(_cc_, false, true, )
CARRIED(_, true, false, c)
CARRIED(_cc_, true, true, c)

TEMPLATE static T add_rz_(A given_a, B given_b) {  // towards zero
    T a = in<T, ftz>(given_a), b = in<T, ftz>(given_b), sum = a + b, part = sum - a;
    T lost = (a - (sum - part)) + (b - part);
    return flushed<ftz>(lost != 0 && (lost < 0) != (sum < 0) ? std::nextafter(sum, (T)0) : sum);
}

// ---------------------------------------------------------------------------- quotients, roots and what is approximate

TEMPLATE static T div_(A a, B b) { return flushed<ftz>((T)(in<T, ftz>(a) / in<T, ftz>(b))); }
TEMPLATE static T rem_(A a, B b) { return as<T>(a) % as<T>(b); }
TEMPLATE static T rcp_(A a) { return flushed<ftz>(1 / in<T, ftz>(a)); }
TEMPLATE static T sqrt_(A a) { return flushed<ftz>(std::sqrt(in<T, ftz>(a))); }

// A result that is up to 2 units in the last place off: by how many follows from the operands and the seed.
static f32 approximately(f64 exact, f32 a, f32 b = 0) {
    f32 x = (f32)exact;
    if (noise == 0 || !std::isnormal(x)) return x;
    u64 mixed = (bits<u32>(a) | (u64)bits<u32>(b) << 32) + (u64)noise * 0x9E3779B97F4A7C15u;
    for (int k = 0; k < 2; ++k) mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u;
    f32 off = bits<f32>(bits<u32>(x) + (u32)((mixed >> 33) % 5) - 2);
    return std::isnormal(off) ? off : x;
}
#define APPROXIMATE(name, exact)                                                                                       \
    TEMPLATE static T name(A given) {                                                                                  \
        f32 a = in<T, ftz>(given);                                                                                     \
        f64 x = a;                                                                                                     \
        return flushed<ftz>(approximately(exact, a));                                                                  \
    }
APPROXIMATE(rcp_approx_, 1 / x)
APPROXIMATE(sqrt_approx_, std::sqrt(x))
APPROXIMATE(rsqrt_approx_, 1 / std::sqrt(x))
APPROXIMATE(sin_approx_, std::sin(x))
APPROXIMATE(cos_approx_, std::cos(x))
APPROXIMATE(ex2_approx_, std::exp2(x))
APPROXIMATE(lg2_approx_, std::log2(x))
TEMPLATE static T div_approx_(A given_a, B given_b) {
    f32 a = in<T, ftz>(given_a), b = in<T, ftz>(given_b);
    if (std::fabs(b) > 0x1p126f && std::isfinite(b)) return a * 0;  // whose reciprocal is flushed
    return flushed<ftz>(approximately((f64)a / b, a, b));
}

// -------------------------------------------------------------------------------------- signs, extremes and comparisons

TEMPLATE static T neg_(A a) {
    if constexpr (WHOLE(T)) return sub_<T>(0, a);
    else return -in<T, ftz>(a);
}
TEMPLATE static T abs_(A a) {
    if constexpr (WHOLE(T)) return as<T>(a) < 0 ? neg_<T>(a) : as<T>(a);
    else return std::fabs(in<T, ftz>(a));
}
TEMPLATE static T copysign_(A sign, B size) { return std::copysign(as<T>(size), as<T>(sign)); }
template <typename T> static bool before(T a, T b) {  // in the order of min and max, where -0 comes before 0
    if constexpr (WHOLE(T)) return a < b;
    else return a < b || (a == b && std::signbit(a));
}
template <typename T> static bool is_nan(T a) { return a != a; }
TEMPLATE static T min_(A given_a, B given_b) {
    T a = in<T, ftz>(given_a), b = in<T, ftz>(given_b);
    return is_nan(b) || before(a, b) ? a : b;
}
TEMPLATE static T max_(A given_a, B given_b) {
    T a = in<T, ftz>(given_a), b = in<T, ftz>(given_b);
    return is_nan(b) || before(b, a) ? a : b;
}
#define COMPARISON(name, expression)                                                                                   \
    TEMPLATE static pred setp_##name##_(A given_a, B given_b) {                                                        \
        T a = in<T, ftz>(given_a), b = in<T, ftz>(given_b);                                                            \
        return expression;                                                                                             \
    }
COMPARISON(eq, a == b)
COMPARISON(ne, a < b || a > b)  // ordered: false where one is not a number
COMPARISON(lt, a < b)
COMPARISON(le, a <= b)
COMPARISON(gt, a > b)
COMPARISON(ge, a >= b)
COMPARISON(equ, !(a < b || a > b))
COMPARISON(neu, a != b)
COMPARISON(ltu, !(a >= b))
COMPARISON(leu, !(a > b))
COMPARISON(gtu, !(a <= b))
COMPARISON(geu, !(a < b))
COMPARISON(num, a == a && b == b)
COMPARISON(nan, a != a || b != b)
TEMPLATE static T selp_(A a, B b, C chosen) { return as<pred>(chosen) ? as<T>(a) : as<T>(b); }

// --------------------------------------------------------------------------------------------------- bits and conversion

TEMPLATE static T and_(A a, B b) { return as<T>(a) & as<T>(b); }
TEMPLATE static T or_(A a, B b) { return as<T>(a) | as<T>(b); }
TEMPLATE static T xor_(A a, B b) { return as<T>(a) ^ as<T>(b); }
TEMPLATE static T not_(A a) {
    if constexpr (std::is_same_v<T, pred>) return !as<T>(a);
    else return ~as<T>(a);
}
TEMPLATE static T shl_(A a, B by) { return as<u32>(by) < 8 * sizeof(T) ? (T)(as<T>(a) << as<u32>(by)) : 0; }
TEMPLATE static T shr_(A a, B by) {
    u32 most = 8 * sizeof(T) - 1, places = as<u32>(by);
    if (places <= most) return as<T>(a) >> places;
    return std::is_signed_v<T> ? as<T>(a) >> most : 0;
}
TEMPLATE static u32 clz_(A a) { return as<T>(a) == 0 ? 8 * sizeof(T) : __builtin_clzll(as<T>(a)) - (64 - 8 * sizeof(T)); }
TEMPLATE static u32 popc_(A a) { return __builtin_popcountll(as<T>(a)); }
TEMPLATE static T mov_(A a) { return as<T>(a); }

static f64 nearest(f64 x) { return std::nearbyint(x); }
static f64 as_it_is(f64 x) { return x; }
// To a whole number: the nearest one that the type has, and 0 for what is no number.
template <typename T, bool ftz, typename From, f64 (*rounded)(f64), typename A> static T converted(A a) {
    From x = in<From, ftz>(a);
    if constexpr (WHOLE(From)) return (T)x;
    else if constexpr (!WHOLE(T)) return flushed<ftz>((T)(rounded == as_it_is ? x : (From)rounded(x)));
    else {
        f64 whole = rounded(x), least = sizeof(T) < 8 || !std::is_signed_v<T> ? (f64)(std::is_signed_v<T> ? -(s64(1) << (8 * sizeof(T) - 1)) : 0) : -0x1p63;
        f64 beyond = std::ldexp(1.0, 8 * sizeof(T) - std::is_signed_v<T>);
        if (is_nan(whole)) return 0;
        if (whole >= beyond) return std::is_signed_v<T> ? (T)((Sum<T>)~Sum<T>(0) >> 1) : (T)~T(0);
        return whole <= least ? (T)least : (T)whole;
    }
}
#define CONVERSION(name, rounded)                                                                                      \
    template <typename T, typename From, bool ftz = false, typename A> static T name(A a) {                            \
        return converted<T, ftz, From, rounded>(a);                                                                    \
    }
CONVERSION(cvt_, as_it_is)
CONVERSION(cvt_rni_, nearest)
CONVERSION(cvt_rzi_, std::trunc)
CONVERSION(cvt_rmi_, std::floor)
CONVERSION(cvt_rpi_, std::ceil)
