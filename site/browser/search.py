"""The site's search, as a reader's browser runs it, over the index that a build wrote.

A port of what Material 9.8 does with lunr (its src/templates/assets/javascripts/integrations/
search, query/transform and _/index): every word also matches as a beginning, a section counts more
the more of the words it has, and a page as a whole more than its sections.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from lunr.builder import Builder
from lunr.index import Index
from lunr.query import Query
from lunr.stop_word_filter import stop_word_filter

TAGS = re.compile(r"<[^>]+>")


@dataclass(frozen=True)
class Hit:
    """A section, or a page as a whole: its address within the site, its title, its score."""

    location: str
    title: str
    score: float


class SiteSearch:
    """Searches one search_index.json."""

    def __init__(self, path: Path) -> None:
        """Index the sections as the browser does. Raises OSError if there is no such file."""
        data = json.loads(path.read_text())
        self.separator = re.compile(data["config"]["separator"])
        self.documents = {
            doc["location"]: {
                "location": doc["location"],
                "title": TAGS.sub("", doc["title"]),
                "text": TAGS.sub(" ", doc["text"]),
            }
            for doc in data["docs"]
        }
        boosts = {name: field["boost"] for name, field in data["config"]["fields"].items()}
        self.index = self._index(boosts)

    def _index(self, boosts: dict[str, float]) -> Index:
        builder = Builder()
        builder.b(0)
        # Material removes trimmer and stemmer, and cuts words itself.
        builder.pipeline.add(stop_word_filter)
        builder.ref("location")
        for name in ("title", "text"):
            builder.field(name, boost=boosts[name])
        for document in self.documents.values():
            builder.add(document)
        return builder.build()

    def words(self, query: str) -> list[str]:
        """Return the words that a query is cut into, without lunr's own marks."""
        plain = re.sub(r"[\"*+:^~]", " ", query.lower())
        return [word for word in self.separator.split(plain) if word]

    def __call__(self, query: str) -> list[Hit]:
        """Return the sections found, best first."""
        words = self.words(query)
        asked = Query(["title", "text"])
        for word in words:
            asked.term(word, wildcard=Query.WILDCARD_TRAILING, use_pipeline=False)
        hits = [self._hit(result, words) for result in self.index.query(asked)]
        return sorted(hits, key=lambda hit: -hit.score)

    def _hit(self, result: dict, words: list[str]) -> Hit:
        document = self.documents[result["ref"]]
        matched = list(result["match_data"].metadata)
        meant = {word for word in words if any(term.startswith(word) for term in matched)}
        counted = meant | {word for word in words if stop_word_filter(word)}
        share = len(meant) / len(counted) if counted else 0.0
        whole = "#" not in document["location"]
        score = result["score"] * (1 + (whole + share) ** 2)
        return Hit(document["location"], document["title"], score)
