/** Output of terminals as a person reads it: colours as classes, everything else that a terminal would obey taken out. */

export interface Run {
  readonly text: string;
  /** Names of classes; "": plain. */
  readonly look: string;
}

/** What a terminal does not show as it is written. */
const CONTROLS = "\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f";
const CONTROL = new RegExp(`[${CONTROLS}]`, "u");
/**
 * In this order: colours; other control sequences; commands with a text of their own (titles, links, the clipboard), which end with their
 * line where nothing else ends them; other escapes; single characters.
 */
const SEQUENCE = new RegExp(
  [
    "(?:\\u001b\\[|\\u009b)([\\d;:]*)m",
    "(?:\\u001b\\[|\\u009b)[0-?]*[ -/]*[@-~]",
    "(?:\\u001b[\\]PX^_]|[\\u009d\\u0090\\u0098\\u009e\\u009f])[^\\u0007\\u001b\\u009c\\n]*(?:\\u0007|\\u001b\\\\|\\u009c)?",
    "\\u001b[ -/]*[0-~]",
    `[${CONTROLS}]`,
  ].join("|"),
  "gu",
);

/** By the last digit of a colour's number. Black, white and greys are the text's own colour: on some theme they could not be read. */
const COLOURS = ["", "red", "green", "yellow", "blue", "magenta", "cyan", ""];

/** The text without anything that a terminal would obey. */
export function plain(text: string): string {
  const lines = text.includes("\r") ? text.replace(/\r\n?/gu, "\n") : text;
  return CONTROL.test(lines) ? lines.replace(SEQUENCE, "") : lines;
}

/** The runs of a text that have one look each. */
export function runsOf(text: string): Run[] {
  const lines = text.includes("\r") ? text.replace(/\r\n?/gu, "\n") : text;
  if (!CONTROL.test(lines)) {
    return [{ text: lines, look: "" }];
  }
  const runs: Run[] = [];
  const style = new Style();
  let at = 0;
  const upTo = (end: number): void => {
    const { look } = style;
    const last = runs.at(-1);
    const more = lines.slice(at, end);
    if (more !== "" && last?.look === look) {
      runs[runs.length - 1] = { text: last.text + more, look };
    } else if (more !== "") {
      runs.push({ text: more, look });
    }
  };
  for (const found of lines.matchAll(SEQUENCE)) {
    upTo(found.index);
    at = found.index + found[0].length;
    if (found[1] !== undefined) {
      style.take(found[1]);
    }
  }
  upTo(lines.length);
  return runs;
}

class Style {
  private colour = "";
  private readonly marks = new Set<string>();

  get look(): string {
    return [this.colour, ...this.marks].filter(Boolean).map((name) => `sgr-${name}`).join(" ");
  }

  /** The numbers of one sequence. Backgrounds are taken out: no theme promises that text can be read on them. */
  take(given: string): void {
    const numbers = given.split(/[;:]/u).map(Number);
    for (let at = 0; at < numbers.length; at += 1) {
      const number = numbers[at] ?? 0;
      if (number === 38 || number === 48) {
        const [colour, used] = wideColour(numbers.slice(at + 1));
        this.colour = number === 38 ? colour : this.colour;
        at += used;
      } else {
        this.takeOne(number);
      }
    }
  }

  private takeOne(number: number): void {
    if (number === 0) {
      this.colour = "";
      this.marks.clear();
    } else if ((number >= 30 && number <= 37) || (number >= 90 && number <= 97)) {
      this.colour = COLOURS[number % 10] ?? "";
    } else if (number === 39) {
      this.colour = "";
    } else {
      for (const [name, on, off] of MARKS) {
        if (number === on) {
          this.marks.add(name);
        } else if (number === off) {
          this.marks.delete(name);
        }
      }
    }
  }
}

const MARKS = [["bold", 1, 22], ["italic", 3, 23], ["under", 4, 24], ["struck", 9, 29]] as const;

/** One of 256 colours, or of all: the nearest that a theme has. The second number is how many numbers it took. */
function wideColour([kind, ...values]: readonly number[]): readonly [string, number] {
  if (kind === 5) {
    const [number = 0] = values;
    return [number < 16 ? (COLOURS[number % 8] ?? "") : number >= 232 ? "" : nearest(...cube(number - 16)), 2];
  }
  return kind === 2 ? [nearest(values[0] ?? 0, values[1] ?? 0, values[2] ?? 0), 4] : ["", 1];
}

function cube(number: number): [number, number, number] {
  return [Math.floor(number / 36) * 51, (Math.floor(number / 6) % 6) * 51, (number % 6) * 51];
}

function nearest(red: number, green: number, blue: number): string {
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  if (most - least < 40) {
    return ""; // grey
  }
  const middle = (most + least) / 2;
  return COLOURS[(red > middle ? 1 : 0) + (green > middle ? 2 : 0) + (blue > middle ? 4 : 0)] ?? "";
}
