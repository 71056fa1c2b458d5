/* Questions that the browser tests ask a page. Loaded before the page's own scripts. */
"use strict";

globalThis.probes = {
  name(element) {
    return element.outerHTML.replace(/\s+/g, " ").slice(0, 120);
  },

  /* What sticks out of the screen at the right, if the page can be scrolled sideways at all. */
  beyondTheScreen() {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const sticksOut = (element) => element.getBoundingClientRect().right > width + 1;
    return [...document.body.querySelectorAll("*")].filter(sticksOut).slice(0, 1).map(this.name);
  },

  /* The names of elements that a reader can come to and whose modules are not there. */
  lifeless() {
    const all = [...document.querySelectorAll("article :not(:defined)")];
    return all.filter((element) => element.checkVisibility()).map((element) => element.localName);
  },

  overflows(element) {
    return element.scrollWidth > element.clientWidth + 1;
  },

  scrollers() {
    const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
    const shown = (element) => element.checkVisibility(); // not in a closed box
    return [...document.querySelectorAll("article *")].filter(shown).filter(scrolls).filter(this.overflows);
  },

  /* Blocks that scroll and that the Tab key does not reach. */
  unreachable() {
    return this.scrollers().filter((element) => element.tabIndex < 0).map(this.name);
  },

  /* Blocks whose content paper would cut off: it cannot scroll. */
  clipped() {
    const blocks = document.querySelectorAll("article :is(pre > code, .wide, .math, figure)");
    return [...blocks].filter(this.overflows).map(this.name);
  },

  /* Words of table cells that stand on more than one line; a word may end at a hyphen or a slash. */
  brokenWords() {
    const broken = [];
    for (const cell of document.querySelectorAll("article :is(td, th)")) {
      const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) {
        for (const word of texts.currentNode.data.matchAll(/[\p{L}\p{N}_]{2,}/gu)) {
          if (this.lines(texts.currentNode, word.index, word[0].length) > 1) broken.push(word[0]);
        }
      }
    }
    return broken;
  },

  /* On how many lines a part of a text stands. */
  lines(text, start, length) {
    const range = document.createRange();
    range.setStart(text, start);
    range.setEnd(text, start + length);
    const boxes = [...range.getClientRects()].sort((a, b) => a.top - b.top);
    return boxes.filter((box, n) => n === 0 || box.top >= boxes[n - 1].bottom - 1).length;
  },

  /* What axe-core says against WCAG 2.1 A and AA, or by the named checks only. */
  async violations(where, rules, checks) {
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"];
    const runOnly = checks ? { type: "rule", values: checks } : { type: "tag", values: tags };
    const options = { runOnly, rules, resultTypes: ["violations"] };
    const { violations } = await axe.run(where, options);
    const first = (fault) => fault.nodes[0].html.slice(0, 200);
    return violations.map((fault) => `axe ${fault.id} (${fault.nodes.length}): ${first(fault)}`);
  },

  /* The element that has the focus: its name, and whether a reader can see that it has it. */
  focus() {
    const stop = document.activeElement;
    if (stop === document.body) return null;
    /* Material hides some controls and draws them as a label or as a row of tabs. */
    const tabs = stop.closest(".tabbed-set")?.querySelector(".tabbed-labels");
    const drawn = stop.matches(".md-option") ? stop.nextElementSibling : stop.type === "radio" && tabs || stop;
    const box = drawn.getBoundingClientRect();
    const onScreen = box.bottom > 0 && box.top < innerHeight && box.width > 0;
    const outlined = getComputedStyle(drawn).outlineStyle !== "none";
    const showsItsCaret = stop.matches("input[type=text]");
    return { name: this.name(stop), seen: onScreen && (outlined || showsItsCaret) };
  },
};
