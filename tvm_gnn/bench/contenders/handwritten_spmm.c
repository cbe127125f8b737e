/* The yardstick: g-SpMM (copy_u, u_mul_e; sum, mean) as an expert would write it in C for one machine.
 *
 * A tile of 64 features stays in vector registers while a row's neighbours are added up; features of the neighbour
 * AHEAD edges later are prefetched; the caller cuts the rows into parts of equal work, which threads take one by one.
 * Compiled with -DINDEX=int32_t or int64_t and -march=native.
 */
#include <stddef.h>
#include <stdint.h>

#define TILE 64
#define AHEAD 16
#define CACHE_LINE 16 /* floats */

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
/* Rows of x start at any multiple of 4 bytes. */
typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

struct csr {
    const INDEX *indptr, *indices;
    const float *w; /* edge values, or NULL for copy_u */
    int64_t num_edges, feat;
    int mean;
};

/* Adds up one tile of one row: `vectors` registers from feature `first` on. The last register starts at `last`, which
 * may overlap the one before it: then some features are computed twice, to the same value. */
static inline __attribute__((always_inline)) void row_tile(
    const struct csr *a, int64_t begin, int64_t end, int64_t first, int64_t last, int vectors, int width, int weighted,
    float factor, const float *x, float *y)
{
    vector sum[TILE / LANES];
#pragma GCC unroll 16
    for (int i = 0; i < vectors; i++) sum[i] = (vector){0};
    for (int64_t e = begin; e < end; e++) {
        const float *source = x + (size_t)a->indices[e] * (size_t)a->feat;
        if (e + AHEAD < a->num_edges) {
            const float *later = x + (size_t)a->indices[e + AHEAD] * (size_t)a->feat + first;
#pragma GCC unroll 4
            for (int j = 0; j < width; j += CACHE_LINE) __builtin_prefetch(later + j, 0, 3);
        }
        const float weight = weighted ? a->w[e] : 1.0f;
#pragma GCC unroll 16
        for (int i = 0; i < vectors; i++) {
            const vector message = *(const vector *)(source + (i == vectors - 1 ? last : first + i * LANES));
            if (weighted)
                sum[i] += weight * message;
            else
                sum[i] += message;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < vectors; i++) {
        if (a->mean) sum[i] *= factor;
        *(vector *)(y + (i == vectors - 1 ? last : first + i * LANES)) = sum[i];
    }
}

/* Rows narrower than one register. */
static inline __attribute__((always_inline)) void narrow_row(
    const struct csr *a, int64_t begin, int64_t end, int weighted, float factor, const float *x, float *y)
{
    float sum[LANES] = {0};
    for (int64_t e = begin; e < end; e++) {
        const float *source = x + (size_t)a->indices[e] * (size_t)a->feat;
        const float weight = weighted ? a->w[e] : 1.0f;
        for (int64_t f = 0; f < a->feat; f++) sum[f] += weighted ? weight * source[f] : source[f];
    }
    for (int64_t f = 0; f < a->feat; f++) y[f] = a->mean ? sum[f] * factor : sum[f];
}

static inline __attribute__((always_inline)) void rows(
    const struct csr *a, int64_t from, int64_t to, int weighted, const float *x, float *y)
{
    for (int64_t row = from; row < to; row++) {
        const int64_t begin = a->indptr[row], end = a->indptr[row + 1], feat = a->feat;
        const float factor = end > begin ? 1.0f / (float)(end - begin) : 0.0f;
        float *out = y + (size_t)row * (size_t)feat;
        if (feat < LANES) {
            narrow_row(a, begin, end, weighted, factor, x, out);
            continue;
        }
        int64_t first = 0;
        for (; first + TILE <= feat; first += TILE)
            row_tile(a, begin, end, first, first + TILE - LANES, TILE / LANES, TILE, weighted, factor, x, out);
#define REST(n)                                                                                         \
    case n:                                                                                             \
        row_tile(a, begin, end, first, feat - LANES, n, (n) * LANES, weighted, factor, x, out);         \
        break;
        switch ((feat - first + LANES - 1) / LANES) {
            REST(1) REST(2) REST(3) REST(4)
#if TILE / LANES > 4
            REST(5) REST(6) REST(7) REST(8)
#endif
#if TILE / LANES > 8
            REST(9) REST(10) REST(11) REST(12) REST(13) REST(14) REST(15) REST(16)
#endif
        }
    }
}

/* y (num_dst, feat) = the op on x (num_src, feat). Part p covers rows bounds[p] up to bounds[p + 1]. */
void handwritten_spmm(
    const INDEX *indptr, const INDEX *indices, const float *w, const INDEX *bounds, int64_t parts, int64_t num_edges,
    int64_t feat, int mean, int threads, const float *x, float *y)
{
    const struct csr a = {indptr, indices, w, num_edges, feat, mean};
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t p = 0; p < parts; p++) {
        if (w)
            rows(&a, bounds[p], bounds[p + 1], 1, x, y);
        else
            rows(&a, bounds[p], bounds[p + 1], 0, x, y);
    }
}
