// Where the documents of sequences of tokens start.
#pragma once

#include "loops.h"

namespace fascicle {

struct DocumentsParams {
    const void* ids;
    void* out;
    u64 sequences;
    u64 sequence;  // tokens
    u32 end;       // the token with which a document ends
    u32 places;    // whether the result is a token's place in its document
};

// The place after the highest bit, of which there is at least one.
FASCICLE_DEVICE u32 past_highest(u64 bits) {
    u32 place = 1;
    FASCICLE_UNROLL
    for (u32 step = 32; step > 0; step /= 2) {
        if (bits >> step == 0) continue;
        place += step;
        bits >>= step;
    }
    return place;
}

// A warp takes a sequence: as many tokens at a time as it has lanes.
FASCICLE_DEVICE void documents(const DocumentsParams& p) {
    each_row_of_warp(p.sequences, [&](u64 sequence) {
        const u32* ids = static_cast<const u32*>(p.ids) + sequence * p.sequence;
        u32* out = static_cast<u32*>(p.out) + sequence * p.sequence;
        u32 lane = lane_index(), start = 0;
        for (u64 first = 0; first < p.sequence; first += WARP) {
            u64 place = first + lane;
            u64 ends = ballot(place < p.sequence && ids[place] == p.end);
            u64 before = ends & ((u64(1) << lane) - 1);
            u32 own = before != 0 ? u32(first) + past_highest(before) : start;
            if (place < p.sequence) out[place] = p.places ? u32(place) - own : own;
            if (ends != 0) start = u32(first) + past_highest(ends);
        }
    });
}

}  // namespace fascicle

FASCICLE_COOPERATIVE(fascicle_documents, fascicle::DocumentsParams, 256) { fascicle::documents(p); }
