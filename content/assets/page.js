/* What a page does by keyboard beyond what HTML already does. Without it the page reads the same. */
"use strict";

const SCROLLERS = { ".math": "Equation", ".wide": "Table", "pre > code": "Code" };

/* A block that scrolls sideways is a stop of the Tab key exactly while it scrolls. */
function keepReachable(block, name) {
  const update = () => {
    const scrolls = block.scrollWidth > block.clientWidth + 1;
    if (scrolls === block.hasAttribute("tabindex")) return;
    if (scrolls) {
      block.tabIndex = 0;
      block.setAttribute("role", "group");
      block.setAttribute("aria-label", `${name}, scrolls sideways`);
    } else {
      for (const attribute of ["tabindex", "role", "aria-label"]) block.removeAttribute(attribute);
    }
  };
  new ResizeObserver(update).observe(block);
  /* On touch screens Material takes the attribute away again, but keyboards exist there too. */
  new MutationObserver(update).observe(block, { attributeFilter: ["tabindex"] });
}

for (const [selector, name] of Object.entries(SCROLLERS)) {
  for (const block of document.querySelectorAll(selector)) keepReachable(block, name);
}

/* Material shows an annotation's number with CSS only, so its link needs a name. */
function nameAnnotations() {
  for (const link of document.querySelectorAll("a.md-annotation__index:not([aria-label])")) {
    link.setAttribute("aria-label", `Note ${link.firstElementChild.dataset.mdAnnotationId}`);
  }
}
new MutationObserver(nameAnnotations).observe(document.querySelector("article"), {
  childList: true,
  subtree: true,
});
nameAnnotations();

/* Escape puts a definition away without moving the pointer or the focus (WCAG 1.4.13). */
function dismissDefinitions() {
  for (const term of document.querySelectorAll(".term:is(:hover, :focus-within)")) {
    term.classList.add("dismissed");
    const restore = () => term.classList.remove("dismissed");
    term.addEventListener("mouseleave", restore, { once: true });
    term.addEventListener("focusout", restore, { once: true });
  }
}

function isTyping(target) {
  return target.closest("input, textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") dismissDefinitions();
  const [target] = event.composedPath(); // inside a shadow tree too
  if (event.key === "?" && !isTyping(target)) document.getElementById("keys").togglePopover();
});

/* A figure comes to life when a reader comes near it: its data, where they lie beside the page, then
   its element, which has the name of a module. Modules need a server: opened from a folder, the page
   keeps the static figure that is inside the element. */
const widgets = new URL("widgets/", document.currentScript.src);

async function enliven(name) {
  await Promise.all([...document.querySelectorAll(`${name} > script[data-src]`)].map(async (data) => {
    data.textContent = await (await fetch(data.dataset.src)).text();
  }));
  await import(new URL(`${name}.js`, widgets));
}

if (location.protocol !== "file:") {
  const near = new IntersectionObserver((changes) => {
    const names = changes.filter((change) => change.isIntersecting).map(({ target }) => target.localName);
    for (const name of new Set(names)) {
      for (const figure of document.querySelectorAll(name)) near.unobserve(figure);
      enliven(name);
    }
  }, { rootMargin: "100%" });
  for (const figure of document.querySelectorAll("article :not(:defined)")) near.observe(figure);
}
