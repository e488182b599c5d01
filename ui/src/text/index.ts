// The catalogue in use. Another language is another file of the shape of `en`, chosen here.

import { en } from "./en";

/** What a language must have. */
export type Catalogue = typeof en;

/** The words of the window. */
export const t: Catalogue = en;
