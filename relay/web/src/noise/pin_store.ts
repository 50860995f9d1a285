// Keeps the pins: one file, replaced as a whole, one writer at a time.

import type { Bytes } from "./bytes.ts";
import { Pins } from "./pins.ts";

/** Where the pin file is. A page has a database for it, and the platform's own locks. */
export interface PinStorage {
  /** Runs `act` while nobody else, in no other tab either, runs one. */
  locked<T>(act: () => Promise<T>): Promise<T>;
  /** The whole file; nothing when there is none. A file that cannot be read is an error. */
  read(): Promise<Bytes | undefined>;
  /** Replaces the whole file, or leaves it as it was. */
  replace(file: Bytes): Promise<void>;
}

/** The pins in a storage. No method goes on with a file that does not parse, and none resets it. */
export class PinStore {
  readonly #storage: PinStorage;

  constructor(storage: PinStorage) {
    this.#storage = storage;
  }

  /** The pins as they are. Throws `PinFileError`. */
  async read(): Promise<Pins> {
    const file = await this.#storage.read();
    return file ? Pins.parse(file) : new Pins();
  }

  /**
   * Changes the pins. The file is read, changed and written under the lock, so that no other
   * writer's change is lost; it is left as it was when `change` throws.
   */
  update<T>(change: (pins: Pins) => T): Promise<T> {
    return this.#storage.locked(async () => {
      const pins = await this.read();
      const result = change(pins);
      await this.#storage.replace(pins.toJson());
      return result;
    });
  }
}

/** A storage that ends with the page: for pages whose origin may keep nothing. */
export class MemoryPinStorage implements PinStorage {
  #file: Bytes | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** Starts with a file, or with none. */
  constructor(file?: Bytes) {
    this.#file = file;
  }

  locked<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#last.then(act, act);
    // Whoever asked for the work hears of its failure; the next in line does not care.
    this.#last = result.catch(() => undefined);
    return result;
  }

  async read(): Promise<Bytes | undefined> {
    return this.#file;
  }

  async replace(file: Bytes): Promise<void> {
    this.#file = file;
  }
}
