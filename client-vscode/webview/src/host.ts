/** Whom the page speaks to: the extension in the editor, or in a page that is a file what stands in it. */

import type { FromPage, Kept, ToPage } from "../../src/features/page/wire.js";

export interface Host {
  tell(message: FromPage): void;
  /** What is to be there again when the page is opened once more. */
  keep(state: Kept): void;
  /** Called once, by the page. */
  listen(take: (message: ToPage) => void): void;
}
