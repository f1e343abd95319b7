/** Whether a tool's answer tells of a failure: by its own mark, else by how it begins or how the program ended. */

export function failedAnswer(marked: unknown, text: string): boolean {
  if (typeof marked === "boolean") {
    return marked;
  }
  const [start, end] = [text.slice(0, 400), text.slice(-400)];
  const begins = /^\s*(?:<system>\s*)?(?:error\b|fatal\b|traceback \(most recent|command failed|permission denied|[\w.]*(?:error|exception):)/iu.test(start);
  const ended = /\b(?:exit(?:ed)?(?: with)?(?: code| status)?|return(?:ed)? code)[:= ]+[1-9]\d{0,2}\b/iu;
  return begins || ended.test(start) || ended.test(end) || /^(?:FAILED\b|(?:=+ .*\b)?[1-9]\d* (?:failed|errors?)\b)/mu.test(end);
}
