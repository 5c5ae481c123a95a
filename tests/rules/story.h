/* A story: the events of a case, as words of text. */
#ifndef TESTS_RULES_STORY_H
#define TESTS_RULES_STORY_H

#include <stdbool.h>
#include <stdio.h>

#define WORD_SIZE 32

/* Takes the next word of the story; false at its end. */
static inline bool next_word(const char **story, char word[WORD_SIZE])
{
    int length = 0;
    bool more = sscanf(*story, " %31s%n", word, &length) == 1;
    *story += length;
    return more;
}

#endif
