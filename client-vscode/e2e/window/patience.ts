/** How long a test waits, as a person would: for as long as it takes on a busy machine, trying again what had no effect. */
import { expect } from "@playwright/test";

/** Milliseconds until something that must happen is given up on. Long, for then it is the machine that is slow, or a bug. */
export const PATIENCE = 60_000;
/** Milliseconds until somebody who clicked and saw nothing happen tries again. */
export const MOMENT = 4_000;
/** The same where a server has to answer first. */
export const WHILE = 15_000;

/**
 * Do something again until it is seen to have worked.
 *
 * The workbench draws rows, menus and lists anew whenever it likes, and what is clicked in that moment is not heard. So
 * `attempt` ends with looking for its effect, and begins with looking whether the attempt before has come through after all.
 */
export async function patiently(attempt: () => Promise<void>): Promise<void> {
    await expect(attempt).toPass({ timeout: PATIENCE, intervals: [50, 100, 250, 500] });
}
