/** Things that have to be put away again. */

import type { Disposable } from "vscode";

/** Owns what its subclass registers, and puts it away in reverse order. */
export abstract class Disposables implements Disposable {
  private readonly owned: Disposable[] = [];
  private gone = false;

  protected get disposed(): boolean {
    return this.gone;
  }

  dispose(): void {
    this.gone = true;
    for (const one of this.owned.splice(0).reverse()) {
      one.dispose();
    }
  }

  protected register<T extends Disposable>(one: T): T {
    if (this.gone) {
      one.dispose();
    } else {
      this.owned.push(one);
    }
    return one;
  }
}
