#!/bin/sh
# Prints the relative links and images of the documents that lead to no file. Needs nothing but the documents, so that it can judge installed ones.
#
# Usage: links.sh DOCUMENT...
for document; do
  grep -oE '\]\([^)]+\)' "$document" | sed -E 's/^\]\(//; s/\)$//; s/#.*//' | grep -vE '^(https?:|mailto:|$)' | while read -r target; do
    [ -e "$(dirname "$document")/$target" ] || echo "$document: there is no $target"
  done
done
