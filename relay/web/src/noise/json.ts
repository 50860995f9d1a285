// JSON (RFC 8259) without loss: numbers keep all their digits, objects keep members that
// nobody here knows, and a member that stands twice is an error. The platform's own parser
// rounds numbers and lets the last of two members win, which is no way to treat a file that
// decides whom to trust.

/** A number as it is written. */
export class JsonNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A value. Objects are maps, so that no name of a member means anything to the language. */
export type Json = null | boolean | string | JsonNumber | Json[] | Map<string, Json>;

/** A text is not JSON. */
export class JsonError extends Error {
  override readonly name = "JsonError";
}

/** Values inside each other that are read: more than any real file has. */
const MAX_DEPTH = 128;

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SPACE = /[ \t\n\r]*/y;

/** Reads one value. Throws {@link JsonError}. */
export function parseJson(text: string): Json {
  const parser = new Parser(text);
  const value = parser.value(0);
  parser.end();
  return value;
}

class Parser {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(depth: number): Json {
    if (depth > MAX_DEPTH) {
      throw this.#wrong("values are too deep inside each other");
    }
    this.#match(SPACE);
    switch (this.#text[this.#at]) {
      case "{":
        return this.#object(depth);
      case "[":
        return this.#array(depth);
      case '"':
        return this.#string();
      case "t":
        return this.#word("true", true);
      case "f":
        return this.#word("false", false);
      case "n":
        return this.#word("null", null);
      default: {
        const number = this.#match(NUMBER);
        if (!number) {
          throw this.#wrong("a value is missing");
        }
        return new JsonNumber(number);
      }
    }
  }

  end(): void {
    this.#match(SPACE);
    if (this.#at < this.#text.length) {
      throw this.#wrong("something follows the end");
    }
  }

  #object(depth: number): Json {
    const members = new Map<string, Json>();
    this.#at += 1;
    if (this.#takes("}")) {
      return members;
    }
    do {
      this.#match(SPACE);
      const name = this.#string();
      if (members.has(name)) {
        throw this.#wrong(`${JSON.stringify(name)} stands twice`);
      }
      this.#expect(":");
      members.set(name, this.value(depth + 1));
    } while (this.#takes(","));
    this.#expect("}");
    return members;
  }

  #array(depth: number): Json {
    const values: Json[] = [];
    this.#at += 1;
    if (this.#takes("]")) {
      return values;
    }
    do {
      values.push(this.value(depth + 1));
    } while (this.#takes(","));
    this.#expect("]");
    return values;
  }

  #string(): string {
    const literal = this.#match(STRING);
    if (!literal) {
      throw this.#wrong("a string is missing or broken");
    }
    const value: string = JSON.parse(literal);
    // Half of a surrogate pair is no text, and could not be written again.
    if (!value.isWellFormed()) {
      throw this.#wrong("a string is not Unicode");
    }
    return value;
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) {
      throw this.#wrong("a value is missing");
    }
    this.#at += word.length;
    return value;
  }

  #takes(character: string): boolean {
    this.#match(SPACE);
    const takes = this.#text[this.#at] === character;
    this.#at += takes ? 1 : 0;
    return takes;
  }

  #expect(character: string): void {
    if (!this.#takes(character)) {
      throw this.#wrong(`"${character}" is missing`);
    }
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text)?.[0] ?? "";
    this.#at += match.length;
    return match;
  }

  #wrong(what: string): JsonError {
    return new JsonError(`${what} at character ${this.#at + 1}`);
  }
}

/** Writes a value, two spaces for each level, as the pin files of other clients are. */
export function writeJson(value: Json, indent = ""): string {
  const inner = `${indent}  `;
  if (value instanceof JsonNumber) {
    return value.text;
  }
  if (Array.isArray(value)) {
    const items = value.map((item) => inner + writeJson(item, inner));
    return items.length > 0 ? `[\n${items.join(",\n")}\n${indent}]` : "[]";
  }
  if (value instanceof Map) {
    const members = [...value].map(([name, member]) => `${inner}${JSON.stringify(name)}: ${writeJson(member, inner)}`);
    return members.length > 0 ? `{\n${members.join(",\n")}\n${indent}}` : "{}";
  }
  return JSON.stringify(value);
}
