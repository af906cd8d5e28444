/** Takes a report's file apart. */

/** Every element of that name, with what is in it. */
export const elementsOf = (file: string, name: string) =>
  [...file.matchAll(new RegExp(`<${name}(?: [^>]*)?>([\\s\\S]*?)</${name}>`, 'g'))].map(([whole, text = '']) => ({
    whole,
    text,
  }));
