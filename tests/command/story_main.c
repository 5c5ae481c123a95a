/* A program whose tests are all stories: see story.h. */
#include "story.h"

STORY_PROGRAM(STORY_NAME)
