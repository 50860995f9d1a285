// Answers what xterm.js makes of a stream of output.
//
// Requests and answers are frames: a length in four bytes, little endian, and JSON. A request
// is {cols, rows, scrollback, steps}; each step is {"feed": base64}, {"resize": [cols, rows]}
// or {"state": true}. The answer is the list of states asked for.
//
// scrollOnEraseInDisplay is set so that scrollbacks can be compared: the model keeps what ED 2
// erases, too. reflowCursorLine is set for the same reason.
//
// What a program can set and xterm.js does not publish is read from its inside; the version
// is pinned, and a name that is missing there ends the script.

import headless from '@xterm/headless';
import unicode11 from '@xterm/addon-unicode11';

const { Terminal } = headless;
const { Unicode11Addon } = unicode11;

function open(cols, rows, scrollback) {
  const terminal = new Terminal({
    cols,
    rows,
    scrollback,
    allowProposedApi: true,
    logLevel: 'off',
    scrollOnEraseInDisplay: true,
    reflowCursorLine: true,
    windowOptions: { getWinSizeChars: true, pushTitle: true, popTitle: true },
  });
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = '11';
  const seen = { title: '', replies: '', colors: {}, bells: 0 };
  terminal.onTitleChange((title) => (seen.title = title));
  terminal.onData((data) => (seen.replies += data));
  terminal.onBell(() => (seen.bells += 1));
  inside(terminal)._inputHandler.onColor((requests) => {
    for (const { type, index, color } of requests) {
      if (type === 1) seen.colors[index] = color;
      if (type === 2 && index === undefined) seen.colors = dynamicOnly(seen.colors);
      if (type === 2) delete seen.colors[index];
    }
  });
  const service = known(inside(terminal)._oscLinkService, '_oscLinkService');
  const register = service.registerLink.bind(service);
  const registered = new Map();
  service.registerLink = (link) => {
    const number = register(link);
    registered.set(number, link);
    return number;
  };
  links.set(inside(terminal), registered);
  return { terminal, seen };
}

// The links of each terminal by number. xterm.js itself forgets one whose first line was
// deleted, although the pen goes on to draw with it.
const links = new WeakMap();

// A reset of the whole palette leaves foreground, background and cursor (256 to 258).
function dynamicOnly(colors) {
  return Object.fromEntries(Object.entries(colors).filter(([index]) => Number(index) >= 256));
}

function inside(terminal) {
  return terminal._core;
}

const known = (value, name) => {
  if (value === undefined) throw new Error(`xterm.js has no ${name}`);
  return value;
};

function color(mode, value) {
  switch (mode) {
    case 0: return 'default';
    case 0x1000000: case 0x2000000: return String(value);
    default: return '#' + value.toString(16).padStart(6, '0');
  }
}

// The colour of underlines where it is not that of the text. SGR 59 leaves all bits set.
function underlineColor(cell) {
  const bits = cell.hasExtendedAttrs() ? cell.extended.underlineColor & 0x3ffffff : 0;
  if (bits === 0 || bits === 0x3ffffff || (bits & 0x3000000) === 0) return null;
  return color(cell.getUnderlineColorMode(), cell.getUnderlineColor());
}

// The attributes of a cell or a pen, in words. A blank without underline, inverse or
// strike-through shows its background alone.
function attributes(core, cell, blank) {
  const words = [];
  const inverse = cell.isInverse();
  const lined = cell.isUnderline() || cell.isOverline() || cell.isStrikethrough();
  if (inverse) words.push('inverse');
  const line = underlineColor(cell);
  if (cell.isUnderline()) words.push(`underline${cell.hasExtendedAttrs() ? cell.extended.underlineStyle : 1}`);
  if (line && (cell.isUnderline() || !blank)) words.push(`line=${line}`);
  if (cell.isOverline()) words.push('overline');
  if (cell.isStrikethrough()) words.push('strike');
  if (!blank || inverse || lined) {
    if (cell.isBold()) words.push('bold');
    if (cell.isDim()) words.push('dim');
    if (cell.isItalic()) words.push('italic');
    if (cell.isBlink()) words.push('blink');
    if (cell.isInvisible()) words.push('invisible');
    const fg = color(cell.getFgColorMode(), cell.getFgColor());
    if (fg !== 'default') words.push(`fg=${fg}`);
  }
  const bg = color(cell.getBgColorMode(), cell.getBgColor());
  if (bg !== 'default') words.push(`bg=${bg}`);
  if (cell.hasExtendedAttrs() && cell.extended.urlId) {
    const link = links.get(core).get(cell.extended.urlId);
    words.push(`link=${link.id ?? ''};${link.uri}`);
  }
  return words.join(' ');
}

// One row: its text without blanks at the end, what is drawn how, and whether it goes on
// from the row above.
function row(core, line, cell) {
  let text = '';
  const runs = [];
  for (let x = 0; x < line.length; x++) {
    line.loadCell(x, cell);
    if (cell.getWidth() === 0) continue;
    const chars = cell.getChars() || ' ';
    text += chars;
    const drawn = attributes(core, cell, chars === ' ');
    if (drawn === '') continue;
    const last = runs.at(-1);
    if (last && last[1] === x && last[2] === drawn) last[1] = x + cell.getWidth();
    else runs.push([x, x + cell.getWidth(), drawn]);
  }
  return { text: text.trimEnd(), runs, wrapped: line.isWrapped };
}

function charsetName(charset) {
  if (!charset) return 'ascii';
  if (charset.q === '─') return 'lines';
  return charset['#'] === '£' ? 'uk' : 'ascii';
}

function tabs(buffer, cols) {
  return Object.keys(buffer.tabs).map(Number).filter((stop) => buffer.tabs[stop] && stop < cols && stop > 0);
}

// A cell with the attributes that a buffer keeps apart from it.
function pen(core, attributesOfPen) {
  return attributes(core, attributesOfPen, false);
}

function screen(core, buffer, cell, cols) {
  const lines = [];
  for (let y = 0; y < buffer.lines.length; y++) lines.push(row(core, buffer.lines.get(y), cell));
  // Nothing goes before the first line that is kept.
  if (lines.length > 0) lines[0].wrapped = false;
  const saved = buffer.savedCurAttrData.clone();
  return {
    lines,
    history: buffer.ybase,
    margins: [buffer.scrollTop, buffer.scrollBottom],
    tabs: tabs(buffer, cols),
    saved: {
      // Restoring it does not wait to wrap.
      x: Math.min(buffer.savedX, cols - 1),
      y: Math.max(buffer.savedY - buffer.ybase, 0),
      // The extended part of a saved pen is not kept apart there.
      pen: pen(core, bare(saved)),
      charset: charsetName(buffer.savedCharset),
    },
  };
}

function bare(attributesOfPen) {
  const copy = attributesOfPen.clone();
  copy.bg &= ~0x10000000;
  return copy;
}

function state({ terminal, seen }) {
  const core = inside(terminal);
  const handler = known(core._inputHandler, '_inputHandler');
  const service = known(core.coreService, 'coreService');
  const mouse = known(core.coreMouseService, 'coreMouseService');
  const charsets = known(core._charsetService, '_charsetService');
  const buffers = core.buffers;
  const { cols } = terminal;
  const cell = terminal.buffer.active.getNullCell();
  const alternate = buffers.active === buffers.alt;
  const result = {
    screen: alternate ? 'alternate' : 'normal',
    cursor: { x: buffers.active.x, y: buffers.active.y, hidden: service.isCursorHidden },
    normal: screen(core, buffers.normal, cell, cols),
    alternate: alternate ? screen(core, buffers.alt, cell, cols) : null,
    pen: pen(core, known(handler._curAttrData, '_curAttrData')),
    charset: {
      level: charsets.glevel,
      sets: [0, 1, 2, 3].map((index) => charsetName(charsets._charsets[index])),
      now: charsetName(charsets.charset),
    },
    modes: {
      ...service.decPrivateModes,
      cursorStyle: service.decPrivateModes.cursorStyle ?? null,
      cursorBlink: service.decPrivateModes.cursorBlink ?? null,
      insert: service.modes.insertMode,
      convertEol: Boolean(terminal.options.convertEol),
      mouse: mouse.activeProtocol,
      mouseEncoding: mouse.activeEncoding,
    },
    title: seen.title,
    colors: seen.colors,
    replies: seen.replies,
    bells: seen.bells,
  };
  seen.replies = '';
  seen.bells = 0;
  return result;
}

const write = (terminal, bytes) => new Promise((done) => terminal.write(bytes, done));

async function answer({ cols, rows, scrollback, steps }) {
  const opened = open(cols, rows, scrollback);
  const states = [];
  for (const step of steps) {
    if (step.feed !== undefined) await write(opened.terminal, Buffer.from(step.feed, 'base64'));
    else if (step.resize !== undefined) opened.terminal.resize(...step.resize);
    else states.push(state(opened));
  }
  opened.terminal.dispose();
  return states;
}

function send(value) {
  const body = Buffer.from(JSON.stringify(value));
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length);
  process.stdout.write(Buffer.concat([head, body]));
}

let pending = Buffer.alloc(0);
for await (const chunk of process.stdin) {
  pending = Buffer.concat([pending, chunk]);
  while (pending.length >= 4 && pending.length >= 4 + pending.readUInt32LE(0)) {
    const end = 4 + pending.readUInt32LE(0);
    const request = JSON.parse(pending.subarray(4, end).toString());
    pending = pending.subarray(end);
    send(await answer(request));
  }
}
