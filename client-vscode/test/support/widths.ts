/** What the editor paints of a label: the pixels that its characters take, and where it cuts them. */

/**
 * Widths of the characters from space to tilde in pixels, as Chromium's `measureText` gives them in DejaVu Sans of 13 pixels: the font
 * of a workbench on a Linux that has no other one. Those of Windows and macOS are narrower.
 */
const WIDTHS = [
  4.13, 5.21, 5.98, 10.89, 8.27, 12.35, 10.14, 3.57, 5.07, 5.07, 6.5, 10.89, 4.13, 4.69, 4.13, 4.38, 8.27, 8.27, 8.27,
  8.27, 8.27, 8.27, 8.27, 8.27, 8.27, 8.27, 4.38, 4.38, 10.89, 10.89, 10.89, 6.9, 13, 8.89, 8.92, 9.08, 10.01, 8.21,
  7.48, 10.07, 9.78, 3.83, 3.83, 8.52, 7.24, 11.22, 9.72, 10.23, 7.84, 10.23, 9.03, 8.25, 7.94, 9.52, 8.89, 12.85, 8.91,
  7.94, 8.91, 5.07, 4.38, 5.07, 10.89, 6.5, 6.5, 7.97, 8.25, 7.15, 8.25, 8, 4.58, 8.25, 8.24, 3.61, 3.61, 7.53,
  3.61, 12.66, 8.24, 7.95, 8.25, 8.25, 5.34, 6.77, 5.1, 8.24, 7.69, 10.63, 7.69, 7.69, 6.82, 8.27, 4.38, 8.27, 10.89,
];
/** A Chinese character, an ellipsis, and whatever else is not in the table. */
const OTHER = 13;

/** Pixels that a label has in a side bar of 300: a step of a turn, with a badge at the right. */
export const ROOM = 190;

function widthOf(char: string): number {
  return WIDTHS[(char.codePointAt(0) ?? 0) - 0x20] ?? OTHER;
}

/** What of a label is painted in that many pixels: the editor cuts it with an ellipsis. */
export function painted(label: string, room = ROOM): string {
  const chars = Array.from(label);
  if (chars.reduce((sum, char) => sum + widthOf(char), 0) <= room) {
    return label;
  }
  let left = room - OTHER;
  const seen = chars.slice(0, chars.findIndex((char) => (left -= widthOf(char)) < 0));
  return `${seen.join("")}…`;
}
