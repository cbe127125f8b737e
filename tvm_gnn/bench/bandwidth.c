// Reads an array again and again: what `bandwidth.py` times.
#include <stdint.h>

typedef float vector __attribute__((vector_size(64)));
enum { STREAMS = 8 };  // independent sums, so that no addition waits for the one before

// Sum over `count` floats at `data`, 64-byte aligned, `count` a multiple of 128, taken `repeats` times.
float read_repeatedly(const float* data, int64_t count, int64_t repeats) {
    const vector* vectors = (const vector*)data;
    const int64_t n = count / (int64_t)(sizeof(vector) / sizeof(float));
    vector sums[STREAMS] = {0};
    for (int64_t repeat = 0; repeat < repeats; repeat++) {
        for (int64_t i = 0; i < n; i += STREAMS)
            for (int s = 0; s < STREAMS; s++) sums[s] += vectors[i + s];
        __asm__ volatile("" ::: "memory");  // or the compiler would read once
    }
    float total = 0;
    for (int s = 0; s < STREAMS; s++)
        for (int lane = 0; lane < (int)(sizeof(vector) / sizeof(float)); lane++) total += sums[s][lane];
    return total;
}
