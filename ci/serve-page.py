"""The page of a server, in a real browser: serve-page.py ADDRESS [SCREENSHOT]. The server has a template of chats."""

import shutil
import sys

from playwright.sync_api import expect, sync_playwright

address, screenshot = sys.argv[1], sys.argv[2:]
problems = []
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 900, "height": 700})
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    answers, send, stop = page.locator("#log .assistant"), page.locator("#send"), page.locator("#stop")

    def ask(text, tokens):
        page.fill("#tokens", str(tokens))
        page.fill("#text", text)
        page.press("#text", "Control+Enter")

    # A chat of two messages, of which the second is answered with the first.
    for number, text in enumerate(["the quick", "brown fox"], 1):
        ask(text, 40)
        expect(answers).to_have_count(number)
        expect(send).to_be_enabled(timeout=60_000)
        assert answers.nth(number - 1).inner_text(), f"answer {number} is empty"
    # A text that is continued, and ended by hand.
    page.uncheck("#chat")
    ask("the", 100_000)
    expect(stop).to_be_enabled()
    expect(answers.nth(2)).not_to_be_empty(timeout=60_000)
    stop.click()
    expect(send).to_be_enabled()
    if screenshot:
        page.screenshot(path=screenshot[0])
    # What the server refuses is shown, and is not part of the conversation.
    assert not problems, problems
    page.check("#chat")
    ask("too much", 10_000_000)
    expect(page.locator("#log .error")).to_contain_text("needs at most")
    expect(answers).to_have_count(3)
    # Markup in a message stays text.
    ask("<b>bold</b>", 2)
    expect(page.locator("#log .user").last).to_have_text("<b>bold</b>")
    assert page.locator("#log b").count() == 0
    expect(send).to_be_enabled(timeout=60_000)
    page.click("#clear")
    expect(page.locator("#log p")).to_have_count(0)
    browser.close()
print("its page, in a browser: chats, texts, a stop, a refusal")
