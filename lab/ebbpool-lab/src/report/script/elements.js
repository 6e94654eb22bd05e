// Elements of the page. Text only ever becomes a text node, so no name can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function drawing(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** A policy's name, which may go on in the next line after a colon, a comma or an equals sign. */
function breakable(name) {
  const pieces = name.split(/(?<=[:,=])/);
  return pieces.flatMap((piece, at) => (at === 0 ? [piece] : [element("wbr"), piece]));
}

// Longer words have to break somewhere.
const LONGEST_UNBROKEN = 20;

/** A sentence whose policies do not break at their hyphens, nor numbers before their per cent. */
function unbroken(sentence) {
  return sentence.replaceAll(" %", "\u00a0%").split(/( )/).map((word) =>
    word.includes("-") && word.length <= LONGEST_UNBROKEN ? element("span", { class: "unbroken" }, word) : word,
  );
}

let ids = 0;

function newId(what) {
  ids += 1;
  return `${what}-${ids}`;
}

function announce(text) {
  document.getElementById("announcer").textContent = text;
}
