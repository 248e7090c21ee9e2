// Macros of another macro's value. Where LEVEL is l2, NAMED(LEVEL_, LEVEL) is LEVEL_l2: so the preprocessor can compare
// words, by the numbers that they are defined as. TEXT(LEVEL) is "l2".

#pragma once

#define JOINED(left, right) left##right
#define NAMED(prefix, word) JOINED(prefix, word)

#define QUOTED(word) #word
#define TEXT(word) QUOTED(word)
